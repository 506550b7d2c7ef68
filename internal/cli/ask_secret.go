package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// askSecret returns what IO.AskSecret is in a process: nil if its standard input is no terminal. Once ctx has ended
// nobody is asked.
func askSecret(ctx context.Context) func(string) (string, error) {
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return nil
	}
	return func(prompt string) (string, error) { return readSecret(ctx, in, os.Stderr, prompt) }
}

// readSecret asks on a terminal. If ctx ends the terminal is as it was before, and the error that of ctx; who reads
// stays behind, since nothing ends a read of a terminal, until a line comes or, as a rule, the process ends.
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
		_ = term.Restore(in, before) // it was one a moment ago
		return "", ctx.Err()
	}
}
