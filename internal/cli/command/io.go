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

// IO has the streams, the clock and the terminal settings of a command.
type IO struct {
	Out, Err io.Writer
	// Now returns the time. Default time.Now.
	Now func() time.Time
	// Program is the name that the process was started as, perhaps kubectl-larder.
	Program string
	// OutIsTerminal says that Out is a terminal. Control characters in the output are escaped then, in every format.
	OutIsTerminal bool
	// TerminalSize returns the columns and lines of Out, or 0 if Out is not a terminal.
	TerminalSize func() (width, height int)
	// ErrIsTerminal says that Err is a terminal, on which progress is shown.
	ErrIsTerminal bool
	// Colours says that Out is a terminal that shows colours.
	Colours bool
	// SetLogger sets the global logger, for libraries that get no logger of their own. Default: it is not changed.
	SetLogger func(logr.Logger)
	// AskSecret prompts on the terminal and reads a line without echo. It is nil without a terminal.
	AskSecret func(prompt string) (string, error)
	// PassphraseWork is the scrypt work factor of passphrases of new snapshots, as a power of two; tests lower it.
	// Default: age's.
	PassphraseWork int
}

// Terminal returns Out without the escaping, for colours and cursor movements of our own.
func (s IO) Terminal() io.Writer { return terminal.Unescaped(s.Out) }

// screen returns Err without the escaping, for the progress bar.
func (s IO) screen() io.Writer { return terminal.Unescaped(s.Err) }

// Bar shows the progress of a save or a restore on a terminal. done removes it.
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

// Busy shows on a terminal that work is in progress. done removes it.
func (s IO) Busy(title string) (done func()) {
	return progress.Busy(s.screen(), s.ErrIsTerminal, title)
}

// Counted returns src with a progress bar that counts the records read from it. done removes the bar. printing says
// that the command writes to Out meanwhile; the bar is not shown then if Out is a terminal.
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

// countedSource adds each record to a progress bar.
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
