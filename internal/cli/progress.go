package cli

import (
	"context"
	"io"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/progress"
	"github.com/larder-dev/larder/snapshot"
)

// screen is Err for what moves the cursor there.
func (s IO) screen() io.Writer { return terminal.Unescaped(s.Err) }

// bar shows on a terminal how far a save or a restore is. done ends it.
func (s IO) bar(title string) (tell func(snapshot.Progress), done func()) {
	var b *progress.Bar
	shown := 0
	tell = func(p snapshot.Progress) {
		if b == nil {
			b = progress.Start(s.screen(), s.ErrIsTerminal, title, int64(p.TotalObjects))
		}
		b.Add(p.Objects - shown)
		shown = p.Objects
	}
	return tell, func() { b.Done() }
}

// busy shows on a terminal that something is at work. done ends it.
func (s IO) busy(title string) (done func()) {
	return progress.Busy(s.screen(), s.ErrIsTerminal, title)
}

// counted counts what is read of src. done ends it. printing says that Out is written meanwhile: where that is a
// terminal nothing is shown.
func (s IO) counted(
	ctx context.Context, title string, src snapshot.Source, printing bool,
) (counted snapshot.Source, done func(), err error) {
	all, err := src.Collections(ctx)
	if err != nil {
		return nil, nil, err
	}
	total := 0
	for _, c := range all {
		total += c.Objects
	}
	width, _ := s.TerminalSize()
	b := progress.Start(s.screen(), s.ErrIsTerminal && !(printing && width > 0), title, int64(total))
	return &countedSource{src, b}, b.Done, nil
}

// countedSource tells a bar of every record.
type countedSource struct {
	snapshot.Source
	bar *progress.Bar
}

// Records implements snapshot.Source.
func (c *countedSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return c.Source.Records(ctx, id, func(r entry.Entry) error {
		c.bar.Add(1)
		return fn(r)
	})
}
