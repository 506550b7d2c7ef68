package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

// liveEvery is how often the state is looked at.
const liveEvery = time.Second

// noteTo returns what writes a note as a line for people.
func noteTo(w io.Writer) func(text string) {
	return func(text string) { fmt.Fprintln(w, "note:", terminal.OneLine(text)) }
}

// show has l tell the state until ctx ends.
func show(ctx context.Context, s command.IO, l *plainLog, state func() []source.Collection) {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		l.update(s.Now(), state())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// relists is the number of relists and why the objects were listed anew.
func relists(l source.Live) string {
	if len(l.Relists) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", l.RelistCount(), strings.Join(slices.Sorted(maps.Keys(l.Relists)), ", "))
}

// troubleOf says of a server that does not answer no more than that, and why. While it is away one resource tries and
// the others wait for that, in turns: what they say of it would never stay the same. It is empty for other errors.
func troubleOf(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	cause := request.Err
	var op *net.OpError
	if errors.As(cause, &op) { // without our own port, another one at each try
		there := *op
		there.Source = nil
		cause = &there
	}
	return fmt.Sprintf("the API server does not answer: %v", cause)
}
