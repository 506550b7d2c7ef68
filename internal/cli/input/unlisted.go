package input

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// Unlisted reports whether the first list of a collection was never completed, and the collection has no objects or its
// list fails. A command cannot conclude anything about the server from an unlisted collection.
func Unlisted(c source.Collection) bool {
	if c.Complete || c.MustRelist != "" || len(c.Filtered) > 0 {
		return false
	}
	return c.Objects == 0 || c.Live != nil && LiveError(*c.Live) != ""
}

// UnlistedError returns the error for a command that reads collections whose first list was never completed (see
// Unlisted); nil if there are none.
func UnlistedError(path string, all []source.Collection) error {
	var errs []error
	for _, c := range all {
		switch {
		case !Unlisted(c):
		case Forbidden(c):
			errs = append(errs, command.WithHint(
				fmt.Errorf("%s has no list of %s: the API server forbids it to the running sync", path, Label(c)),
				"%s", strings.ReplaceAll(c.Live.Forbidden, "; ", " and ")))
		case c.Live != nil && LiveError(*c.Live) != "":
			errs = append(errs, command.WithHint(
				fmt.Errorf("%s has no list of %s: it fails: %s", path, Label(c), LiveError(*c.Live)),
				"the running sync goes on trying; larder wait %s returns once it has succeeded", path))
		case c.Live != nil:
			errs = append(errs, command.WithHint(fmt.Errorf("%s has no list of %s yet", path, Label(c)),
				"larder wait %s returns once the running sync has listed it", path))
		case !c.TakenAt.IsZero():
			errs = append(errs, fmt.Errorf("%s has no list of %s: there was none when it was saved", path, Label(c)))
		default:
			errs = append(errs, command.WithHint(
				fmt.Errorf("%s has no list of %s: the larder sync that was to mirror it has ended before", path, Label(c)),
				"mirror it with: %s", SyncCommand(path, all, c.Named().String())))
		}
	}
	return errors.Join(errs...)
}
