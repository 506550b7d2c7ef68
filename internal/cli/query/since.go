package query

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// since is the value of --since: a seq, which is the number of a change in a changelog. A value that a watch has
// printed also has the ID of the changelog.
type since struct {
	text string
	seq  uint64
	feed string
}

// startOver is the hint to watch from the beginning. Its arguments are the resource and the store.
const startOver = "start over with: larder get %s -w --from %s"

func parseSince(text string) (*since, error) {
	if text == "" {
		return nil, nil
	}
	number, feed, ofFeed := strings.Cut(text, "@")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || ofFeed && feed == "" {
		return nil,
			command.Usagef(
				"--since %q: it must be a number, as larder watch and larder get print it, or what larder watch says to go on with",
				text)
	}
	return &since{text, seq, feed}, nil
}

// of fails if the value of --since names another changelog than that of the collection. A value without a changelog ID
// is accepted.
func (s *since) of(path string, r input.Resource, c source.Collection) error {
	if s.feed == "" || c.Changes == nil || c.Changes.Feed == s.feed {
		return nil
	}
	return command.WithHint(
		fmt.Errorf(
			"--since %s is not of the %s of %s: it was printed for another resource or store, or before this one was made anew",
			s.text, r, path),
		startOver, r, path)
}

func cursorOf(c source.Collection, seq uint64) string {
	cursor := strconv.FormatUint(seq, 10)
	if c.Changes != nil && c.Changes.Feed != "" {
		cursor += "@" + c.Changes.Feed
	}
	return cursor
}
