package snapshots

import (
	"errors"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
)

// TestPassphraseOnATerminal checks that a new passphrase is prompted for twice, and an existing one only if a snapshot
// needs it.
func TestPassphraseOnATerminal(t *testing.T) {
	t.Setenv(input.PassphraseVariable, "")
	var answers, asked []string
	s := command.IO{AskSecret: func(prompt string) (string, error) {
		asked = append(asked, prompt)
		if len(answers) == 0 {
			return "", errors.New("end of file")
		}
		text := answers[0]
		answers = answers[1:]
		return text, nil
	}}
	answers = []string{"one", "two"}
	if _, err := (&recipientFlags{passphrase: true}).read(s); command.ExitCode(err) != command.UsedWrongly ||
		!strings.Contains(err.Error(), "differ") {
		t.Errorf("got %v", err)
	}
	answers = []string{"one", "one"}
	if r, err := (&recipientFlags{passphrase: true}).read(s); err != nil || len(r) != 1 || len(asked) != 4 {
		t.Errorf("%v, %v, %q", r, err, asked)
	}
	if _, err := (&recipientFlags{passphrase: true}).read(s); err == nil ||
		!strings.Contains(err.Error(), "could not be read") {
		t.Errorf("got %v", err)
	}
	asked = nil
	id := &input.PassphraseIdentity{Ask: func(prompt string) (string, error) { return input.Passphrase(s, prompt) }}
	if _, err := id.Unwrap([]*age.Stanza{{Type: "X25519"}}); !errors.Is(err, age.ErrIncorrectIdentity) || len(asked) > 0 {
		t.Errorf("%v, %q", err, asked)
	}
}
