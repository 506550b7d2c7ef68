package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/store"
)

// TestCompactErrors checks hints of larder compact for errors that a test cannot provoke on every machine.
func TestCompactErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		err  error
		hint string
	}{
		{store.ErrNoSpace, "make room"},
		{entry.ErrDamaged, "larder check --from " + path},
		{fs.ErrPermission, "run as the user who may write to it and to its directory"},
	} {
		err := compactError(path, fmt.Errorf("compact: %w", test.err))
		if !strings.Contains(command.HintOf(err), test.hint) || !errors.Is(err, test.err) {
			t.Errorf("%v: %v, hint %q", test.err, err, command.HintOf(err))
		}
	}
}
