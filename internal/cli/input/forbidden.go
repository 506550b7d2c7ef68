package input

import (
	"fmt"
	"slices"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// Forbidden reports whether the running sync gets a 403 from the API server when it lists or watches the collection.
func Forbidden(c source.Collection) bool { return c.Live != nil && c.Live.Forbidden != "" }

func ForbiddenNote(forbidden []source.Collection, all int) string {
	var labels []string
	for _, c := range forbidden {
		labels = append(labels, Label(c))
	}
	rights := "kubectl auth can-i --list shows the rights"
	if len(forbidden) == 1 {
		rights = forbidden[0].Live.Forbidden
	}
	return fmt.Sprintf("the API server forbids %d of %s: %s; they are not mirrored until it allows list and "+
		"watch, and their stored objects stay readable; %s",
		len(forbidden), command.Counted(all, "resource"), Some(labels), rights)
}

// Error is the text of an error, and the labels of the collections that have this error.
type Error struct {
	Text string
	Of   []string
}

// Errors returns the errors of the mirrored collections, in the order of the collections, and combines equal errors. It
// omits forbidden collections, because ForbiddenNote names them in one line.
func Errors(all []source.Collection) (errs []Error) {
	for _, c := range all {
		if c.Live == nil || LiveError(*c.Live) == "" || Forbidden(c) {
			continue
		}
		errs = addError(errs, LiveError(*c.Live), Label(c))
	}
	return errs
}

func addError(errs []Error, text, of string) []Error {
	i := slices.IndexFunc(errs, func(e Error) bool { return e.Text == text })
	if i < 0 {
		i, errs = len(errs), append(errs, Error{Text: text})
	}
	errs[i].Of = append(errs[i].Of, of)
	return errs
}

const mostNamed = 5

func Some(names []string) string {
	if len(names) > mostNamed+1 {
		names = append(slices.Clone(names[:mostNamed]), fmt.Sprintf("%d more", len(names)-mostNamed))
	}
	return strings.Join(names, ", ")
}
