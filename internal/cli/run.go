package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/symptom"
)

// Main runs larder with the process's arguments and streams and returns its exit code. SIGINT and SIGTERM cancel the
// context of the running command; a second signal kills the process.
func Main() int {
	_, code := runProcess(command.IO{Err: os.Stderr})
	return code
}

// MainForTests is like Main, with two differences. Passphrases have a low scrypt work factor, because under the race
// detector the default takes many seconds of CPU time. Standard error is written to errs. MainForTests also returns the
// executed command.
func MainForTests(errs io.Writer) (*cobra.Command, int) {
	return runProcess(command.IO{PassphraseWork: 10, Err: errs})
}

func runProcess(s command.IO) (*cobra.Command, int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	s.Out, s.Program, s.AskSecret = os.Stdout, os.Args[0], askSecret(ctx)
	s.ErrIsTerminal, s.OutIsTerminal = term.IsTerminal(int(os.Stderr.Fd())), term.IsTerminal(int(os.Stdout.Fd()))
	s.TerminalSize = func() (int, int) { return terminalSize(os.Stdout) }
	s.Colours = term.IsTerminal(int(os.Stdout.Fd())) && terminal.WantsColours()
	s.SetLogger = func(l logr.Logger) { klog.SetLoggerWithOptions(l, klog.ContextualLogger(true)) }
	return execute(ctx, os.Args[1:], s)
}

// Run executes one command line of larder and returns its exit code.
func Run(ctx context.Context, args []string, s command.IO) int {
	_, code := execute(ctx, args, s)
	return code
}

func execute(ctx context.Context, args []string, s command.IO) (*cobra.Command, int) {
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.TerminalSize == nil {
		s.TerminalSize = func() (int, int) { return 0, 0 }
	}
	// NewVisibleWriter escapes control characters, because errors and notes quote text of files and servers.
	s.Err = terminal.NewVisibleWriter(&lockedWriter{w: s.Err})
	ctx = klog.NewContext(ctx,
		command.WithoutCanceled(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(s.Err)))))
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
	cmd, err := root.ExecuteContextC(ctx)
	err = errors.Join(err, flush())
	if errors.Is(err, context.Canceled) {
		err = command.IfInterrupted(ctx, err, "")
	}
	report(s.Err, err)
	return cmd, command.ExitCode(err)
}

func report(w io.Writer, err error) {
	if err == nil || errors.Is(err, command.ErrSilent) {
		return
	}
	fmt.Fprintf(w, "error: %v\n", err)
	if hint := command.HintOf(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
	if page := symptom.Of(err); page != "" {
		fmt.Fprintf(w, "see: %s\n", page)
	}
}

func terminalSize(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer // mu guards w
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// askSecret returns a function that prompts for a secret, for IO.AskSecret, or nil if standard input is not a terminal.
// Once ctx has ended, the function returns the error of ctx without prompting.
func askSecret(ctx context.Context) func(string) (string, error) {
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return nil
	}
	return func(prompt string) (string, error) { return readSecret(ctx, in, os.Stderr, prompt) }
}

// readSecret prints the prompt and reads one line from the terminal without echo. If ctx ends first, it restores the
// terminal's settings and returns the error of ctx. A blocked read of a terminal cannot be cancelled: the reading
// goroutine stays until a line is entered or the process exits.
func readSecret(ctx context.Context, in int, out io.Writer, prompt string) (string, error) {
	before, err := term.GetState(in)
	if err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	fmt.Fprint(out, prompt)
	defer fmt.Fprintln(out)
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := term.ReadPassword(in)
		answered <- answer{text, err}
	}()
	select {
	case a := <-answered:
		return string(a.text), a.err
	case <-ctx.Done():
		_ = term.Restore(in, before)
		return "", ctx.Err()
	}
}
