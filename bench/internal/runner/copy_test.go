package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	want := bytes.Repeat([]byte("larder"), copyPage)
	// The copy's destination exists and is longer than the source, so it must be truncated.
	for path, data := range map[string][]byte{from: want, to: bytes.Repeat([]byte("x"), 2*len(want))} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyFile(to, from); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d; %v", len(got), len(want), err)
	}
	if err := copyFile(to, filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there was copied")
	}
}
