package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newTerminal opens a pseudo terminal. Bytes written to keys are its keyboard input.
func newTerminal(t *testing.T) (keys, terminal *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return keys, terminal
}

func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func TestInterruptedAtThePrompt(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		keys, terminal := newTerminal(t)
		ctx, cancel := context.WithCancel(t.Context())
		type answer struct {
			text string
			err  error
		}
		var out bytes.Buffer
		answered := make(chan answer, 1)
		go func() {
			text, err := readSecret(ctx, int(terminal.Fd()), &out, "Passphrase: ")
			answered <- answer{text, err}
		}()
		for echoes(t, terminal) { // readSecret turns off the terminal's echo
			time.Sleep(time.Millisecond)
		}
		want := answer{text: "secret"}
		if interrupted {
			want = answer{err: context.Canceled}
			cancel()
		} else if _, err := keys.WriteString("secret\n"); err != nil {
			t.Fatal(err)
		}
		if got := <-answered; got.text != want.text || !errors.Is(got.err, want.err) || out.String() != "Passphrase: \n" {
			t.Errorf("got %v, %q", got, out.String())
		}
		if !echoes(t, terminal) {
			t.Error("what is typed is not shown any more")
		}
		// After ^C a goroutine still reads the terminal, until a line is entered.
		if interrupted {
			if _, err := keys.WriteString("\n"); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
	}
}
