package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
)

// TestPassphrasePromptsOnce checks that a command prompts once for a passphrase, however often it opens files with it,
// and once more for a file with another passphrase.
func TestPassphrasePromptsOnce(t *testing.T) {
	t.Setenv(input.PassphraseVariable, "")
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		recipient, err := age.NewScryptRecipient(name)
		if err != nil {
			t.Fatal(err)
		}
		recipient.SetWorkFactor(10)
		writeSealed(t, filepath.Join(dir, name), recipient)
	}
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for _, tc := range []struct {
		args []string
		asks []string
	}{
		{[]string{"snapshot", "restore", one, "--store", filepath.Join(dir, "a.db")}, []string{"one"}},
		{[]string{"diff", one, one}, []string{"one"}},
		{[]string{"diff", one, two}, []string{"one", "two"}},
	} {
		asks := tc.asks
		var out, errs bytes.Buffer
		s := command.IO{Out: &out, Err: &errs, Now: time.Now, AskSecret: func(string) (string, error) {
			if len(asks) == 0 {
				return "", errors.New("asked once too often")
			}
			text := asks[0]
			asks = asks[1:]
			return text, nil
		}}
		if code := Run(context.Background(), tc.args, s); code != command.OK || len(asks) > 0 {
			t.Errorf("%q: %d %q, %d not asked for", tc.args, code, errs.String(), len(asks))
		}
	}
}

func TestQuickDiffHasNoProgress(t *testing.T) {
	t.Setenv("TERM", "xterm")
	path := filepath.Join(t.TempDir(), "s.larder")
	writeSnapshot(t, path, snapshot.Header{})
	var out, errs bytes.Buffer
	s := command.IO{Out: &out, Err: &errs, ErrIsTerminal: true, Now: time.Now}
	if code := Run(context.Background(), []string{"diff", path, path}, s); code != command.OK || out.Len() > 0 ||
		errs.Len() > 0 {
		t.Errorf("%d %q %q", code, out.String(), errs.String())
	}
}
