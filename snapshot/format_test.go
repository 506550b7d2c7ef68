package snapshot

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
)

func TestNewerFormatIsRefused(t *testing.T) {
	c := small()
	c.header.Larder = "v9.8.7"
	data := c.bytes(t, WriterOptions{version: formatNow + 1})
	_, readerErr := NewReader(bytes.NewReader(data), ReaderOptions{})
	_, openErr := NewFile(bytes.NewReader(data), int64(len(data)), OpenOptions{})
	_, verifyErr := Verify(t.Context(), bytes.NewReader(data), ReaderOptions{})
	for _, err := range []error{readerErr, openErr, verifyErr} {
		var f *FormatError
		if !errors.Is(err, ErrNewerFormat) || !errors.As(err, &f) || f.Format != formatNow+1 || f.Newest != formatNow || f.Larder != "v9.8.7" {
			t.Errorf("%v", err)
			continue
		}
		const want = "the snapshot is in format 2, written by Larder v9.8.7; this program reads formats up to 1: upgrade Larder"
		if err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// later is what a program has whose format is formatNow+1 and that reads the one before, too. In that
// one, UIDs and why a collection must be listed have an "old:" before them, which must be gone when it is read.
func later() map[uint32]format {
	before := formats()[formatNow]
	before.collection = func(data []byte) (Collection, error) {
		c, err := parseCollection(data)
		c.MustRelist = strings.TrimPrefix(c.MustRelist, "old:")
		return c, err
	}
	before.cutRecord = func(data []byte) (entry.Entry, []byte, bool) {
		r, rest, ok := cutRecord(data)
		r.UID = strings.TrimPrefix(r.UID, "old:")
		return r, rest, ok
	}
	known := formats()
	known[formatNow+1] = known[formatNow]
	known[formatNow] = before
	return known
}

func TestFormatBeforeIsRead(t *testing.T) {
	for version, written := range map[uint32]string{formatNow: "old:", formatNow + 1: ""} {
		as := func(prefix string) content {
			return content{header: Header{Larder: "v1"}, collections: []contentOf{{
				Collection{Identity: identityOf("pods"), ResourceVersion: "9", MustRelist: prefix + "because"},
				[]entry.Entry{{Key: "a/1", UID: prefix + "u1", Payload: []byte("x")}, {Key: "a/2", UID: prefix + "u2"}},
			}}}
		}
		data := as(written).bytes(t, WriterOptions{version: version})
		want := as("")
		got, m, err := readAll(bytes.NewReader(data), ReaderOptions{formats: later()})
		if err != nil || m.Format != version {
			t.Fatal(m.Format, err)
		}
		want.check(t, got)
		f, err := NewFile(bytes.NewReader(data), int64(len(data)), OpenOptions{formats: later()})
		if err != nil {
			t.Fatal(err)
		}
		want.check(t, readFile(t, f))
	}
}

func TestForeignFiles(t *testing.T) {
	for _, data := range []string{"", "x", "\x89PNG\r\n\x1a\n", "\x89LARDER\r\n", strings.Repeat("\x00", 4096), "{}"} {
		_, readerErr := NewReader(strings.NewReader(data), ReaderOptions{})
		_, openErr := NewFile(strings.NewReader(data), int64(len(data)), OpenOptions{})
		for _, err := range []error{readerErr, openErr} {
			if !errors.Is(err, ErrNotSnapshot) || errors.Is(err, ErrDamaged) {
				t.Errorf("%q: %v", data, err)
			}
		}
	}
}
