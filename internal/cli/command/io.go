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

type IO struct {
	Out, Err io.Writer
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// Program is the name under which the process was started: larder, or kubectl-larder as a plugin of kubectl.
	Program string
	// OutIsTerminal says that standard output is a terminal. Control characters are then escaped, in every output format.
	OutIsTerminal bool
	// TerminalSize returns the columns and lines of Out, or 0 if Out is not a terminal.
	TerminalSize func() (width, height int)
	// ErrIsTerminal says that standard error is a terminal. Commands then show their progress on standard error.
	ErrIsTerminal bool
	// Colours says that standard output is a terminal that shows colours.
	Colours bool
	// SetLogger sets the global logger, which libraries without a logger of their own use. Default: the global logger
	// is not changed.
	SetLogger func(logr.Logger)
	// AskSecret prompts on the terminal and reads a line without echo. It is nil without a terminal.
	AskSecret func(prompt string) (string, error)
	// PassphraseWork is the scrypt work factor, as a power of two, of passphrases for new snapshots. Default: age's own.
	// Tests set a low factor.
	PassphraseWork int
}

// Terminal returns the writer to standard output that does not escape control characters, for larder's own colours and
// cursor movements.
func (s IO) Terminal() io.Writer { return terminal.Unescaped(s.Out) }

// screen returns the writer to standard error that does not escape control characters, for the progress bar.
func (s IO) screen() io.Writer { return terminal.Unescaped(s.Err) }

// Bar shows the progress of a save or a restore on a terminal. tell receives the progress; done removes the bar.
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

func (s IO) Busy(title string) (done func()) {
	return progress.Busy(s.screen(), s.ErrIsTerminal, title)
}

// Counted returns src with a progress bar that counts the records read from src. done removes the bar. printing says
// that the command prints to standard output while it reads; on a terminal, no bar is then shown.
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

type countedSource struct {
	snapshot.Source
	bar *progress.Bar
}

func (c *countedSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return c.Source.Records(ctx, id, func(r entry.Entry) error {
		c.bar.Add(1)
		return fn(r)
	})
}
