package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/larder-dev/larder/internal/cli/terminal"
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

// terminal is Out for what colours it, or moves the cursor there: all else of what is written has to be visible.
func (s IO) terminal() io.Writer { return terminal.Unescaped(s.Out) }

// Main runs larder with the process's arguments and streams and returns its exit code.
// SIGINT and SIGTERM end a command in good order; a second one kills.
func Main() int { return runProcess(IO{}) }

// MainForTests is Main with passphrases that cost next to nothing: tests run under the race detector, where one takes a
// processor many seconds.
func MainForTests() int { return runProcess(IO{PassphraseWork: 10}) }

// runProcess fills in the process's streams.
func runProcess(s IO) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	s.Out, s.Err, s.Program, s.AskSecret = os.Stdout, os.Stderr, os.Args[0], askSecret(ctx)
	s.ErrIsTerminal, s.OutIsTerminal = term.IsTerminal(int(os.Stderr.Fd())), term.IsTerminal(int(os.Stdout.Fd()))
	s.TerminalSize = func() (int, int) { return terminalSize(os.Stdout) }
	s.Colours = term.IsTerminal(int(os.Stdout.Fd())) && terminal.WantsColours()
	s.SetLogger = func(l logr.Logger) { klog.SetLoggerWithOptions(l, klog.ContextualLogger(true)) }
	return Run(ctx, os.Args[1:], s)
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, args []string, s IO) int {
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.TerminalSize == nil {
		s.TerminalSize = func() (int, int) { return 0, 0 }
	}
	s.Err = terminal.NewVisibleWriter(&lockedWriter{w: s.Err}) // errors and notes quote files and servers
	ctx = klog.NewContext(ctx, withoutGivenUp(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(s.Err)))))
	flush := func() error { return nil }
	if s.OutIsTerminal {
		out := terminal.NewWriter(s.Out)
		s.Out, flush = out, out.Flush
	}
	root := newRoot(s)
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		forCompletion(root)
	}
	err := errors.Join(root.ExecuteContext(ctx), flush())
	if errors.Is(err, context.Canceled) {
		err = ifInterrupted(ctx, err, "")
	}
	report(s.Err, err)
	return exitCode(err)
}

// report prints an error and its hint.
func report(w io.Writer, err error) {
	if err == nil || errors.Is(err, errSilent) {
		return
	}
	fmt.Fprintf(w, "error: %v\n", err)
	var h hinted
	if errors.As(err, &h) {
		fmt.Fprintf(w, "hint: %s\n", h.hint)
	}
}

func terminalSize(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
