package command

import (
	"context"
	"io"
	"time"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/progress"
	"github.com/larder-dev/larder/snapshot"
)

// IO is what the commands print to, and the clock they tell ages by.
type IO struct {
	Out, Err io.Writer
	// Now returns the time. Default time.Now.
	Now func() time.Time
	// Program is the name that the process was started by, which may be kubectl-larder.
	Program string
	// OutIsTerminal says that Out is a terminal: then nothing that is printed moves its cursor, in whatever format.
	OutIsTerminal bool
	// TerminalSize returns the columns and lines of the terminal that Out is, or 0 if it is none.
	TerminalSize func() (width, height int)
	// ErrIsTerminal says that Err is one, which can show how far something is.
	ErrIsTerminal bool
	// Colours are wanted on Out, which is a terminal.
	Colours bool
	// SetLogger sets what libraries log to that know of no other. Default: they are left as they are.
	SetLogger func(logr.Logger)
	// AskSecret asks on the terminal for a text that is not shown. nil if there is no terminal.
	AskSecret func(prompt string) (string, error)
	// PassphraseWork is what it costs to try a passphrase of a snapshot that is written, as a power of two, for tests.
	// Default: what age asks for.
	PassphraseWork int
}

// Terminal is Out for what colours it, or moves the cursor there: all else of what is written has to be visible.
func (s IO) Terminal() io.Writer { return terminal.Unescaped(s.Out) }

// screen is Err for what moves the cursor there.
func (s IO) screen() io.Writer { return terminal.Unescaped(s.Err) }

// Bar shows on a terminal how far a save or a restore is. done ends it.
func (s IO) Bar(title string) (tell func(snapshot.Progress), done func()) {
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

// Busy shows on a terminal that something is at work. done ends it.
func (s IO) Busy(title string) (done func()) {
	return progress.Busy(s.screen(), s.ErrIsTerminal, title)
}

// Counted counts what is read of src. done ends it. printing says that Out is written meanwhile: where that is a
// terminal nothing is shown.
func (s IO) Counted(
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
