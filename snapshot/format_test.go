package snapshot_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/snapshot"
)

func TestNewerFormatIsRefused(t *testing.T) {
	c := small()
	c.header.Larder = "v9.8.7"
	data := c.bytes(t, snapshot.WithVersion(snapshot.WriterOptions{}, formatNow+1))
	_, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if !errors.Is(err, snapshot.ErrNewerFormat) {
		t.Fatal(err)
	}
	const want = "the snapshot's format is newer than this program: it is in format 2, written by Larder v9.8.7, " +
		"and this program reads format 1: upgrade Larder"
	if err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestForeignFiles(t *testing.T) {
	for _, data := range []string{"", "x", "\x89PNG\r\n\x1a\n", "\x89LARDER\r\n", strings.Repeat("\x00", 4096), "{}"} {
		_, err := snapshot.NewFile(strings.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
		if !errors.Is(err, snapshot.ErrNotSnapshot) || errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("%q: %v", data, err)
		}
	}
}
