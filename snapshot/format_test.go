package snapshot_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

func TestNewerFormatIsRefused(t *testing.T) {
	c := small()
	c.header.Larder = "v9.8.7"
	data := c.bytes(t, snapshot.WithVersion(snapshot.WriterOptions{}, formatNow+1))
	_, readerErr := snapshot.NewReader(bytes.NewReader(data), snapshot.ReaderOptions{})
	_, openErr := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	_, verifyErr := snapshot.Verify(t.Context(), bytes.NewReader(data), snapshot.ReaderOptions{})
	for _, err := range []error{readerErr, openErr, verifyErr} {
		var f *snapshot.FormatError
		if !errors.Is(err, snapshot.ErrNewerFormat) || !errors.As(err, &f) || f.Format != formatNow+1 ||
			f.Newest != formatNow || f.Larder != "v9.8.7" {
			t.Errorf("%v", err)
			continue
		}
		const want = "the snapshot is in format 2, written by Larder v9.8.7; " +
			"this program reads formats up to 1: upgrade Larder"
		if err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestFormatBeforeIsRead(t *testing.T) {
	reader, open := snapshot.NextProgram()
	for version, written := range map[uint32]string{formatNow: "old:", formatNow + 1: ""} {
		as := func(prefix string) content {
			return content{header: snapshot.Header{Larder: "v1"}, collections: []contentOf{{
				snapshot.Collection{Identity: identityOf("pods"), ResourceVersion: "9", MustRelist: prefix + "because"},
				[]entry.Entry{{Key: "a/1", UID: prefix + "u1", Payload: []byte("x")}, {Key: "a/2", UID: prefix + "u2"}},
			}}}
		}
		data := as(written).bytes(t, snapshot.WithVersion(snapshot.WriterOptions{}, version))
		want := as("")
		got, m, err := readAll(bytes.NewReader(data), reader)
		if err != nil || m.Format != version {
			t.Fatal(m.Format, err)
		}
		want.check(t, got)
		f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), open)
		if err != nil {
			t.Fatal(err)
		}
		want.check(t, readFile(t, f))
	}
}

func TestForeignFiles(t *testing.T) {
	for _, data := range []string{"", "x", "\x89PNG\r\n\x1a\n", "\x89LARDER\r\n", strings.Repeat("\x00", 4096), "{}"} {
		_, readerErr := snapshot.NewReader(strings.NewReader(data), snapshot.ReaderOptions{})
		_, openErr := snapshot.NewFile(strings.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
		for _, err := range []error{readerErr, openErr} {
			if !errors.Is(err, snapshot.ErrNotSnapshot) || errors.Is(err, snapshot.ErrDamaged) {
				t.Errorf("%q: %v", data, err)
			}
		}
	}
}
