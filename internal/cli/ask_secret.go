package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

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
