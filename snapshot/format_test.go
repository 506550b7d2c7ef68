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
	var f *snapshot.FormatError
	if !errors.Is(err, snapshot.ErrNewerFormat) || !errors.As(err, &f) || f.Format != formatNow+1 ||
		f.Newest != formatNow || f.Larder != "v9.8.7" {
		t.Fatal(err)
	}
	const want = "the snapshot is in format 2, written by Larder v9.8.7; " +
		"this program reads formats up to 1: upgrade Larder"
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
