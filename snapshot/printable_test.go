package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/larder-dev/larder/store"
)

// escapes are what somebody may put into a file so that it is printed.
const escapes = "x\x1b[2J\nerror: all is well"

func wantPrintable(t *testing.T, what, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\x1b\n") || !strings.Contains(text, `x\x1b[2J\n`) {
		t.Errorf("%s: %q", what, text)
	}
}

// TestTextsOfFilesArePrintable: what a file calls itself and its collections moves no cursor and makes no lines.
func TestTextsOfFilesArePrintable(t *testing.T) {
	wantPrintable(t, "the program that wrote it", (&FormatError{Format: 2, Newest: 1, Larder: escapes}).Error())
	wantPrintable(t, "damage", (&DamageError{Collection: escapes}).Error())

	secret := collectionOf(core("secrets"), "Secret", store.Unstructured)
	secret.Identity.Namespace = escapes
	secret.Sealed = true
	other := collectionOf(core("pods"), "Pod", store.Unstructured)
	other.Identity.Resource, other.Identity.Group = escapes, escapes
	data := content{collections: []contentOf{{secret, nil}, {other, []store.Record{{Key: "a", Encoding: encodingMsgpack, Payload: []byte("\x80")}}}}}.bytes(t, WriterOptions{})
	report, err := Verify(t.Context(), bytes.NewReader(data), ReaderOptions{})
	if err != nil || len(report.Problems) == 0 {
		t.Fatal(report, err)
	}
	for _, p := range report.Problems {
		wantPrintable(t, "a problem", p)
	}
	restored, err := RestoreFrom(t.Context(), bytes.NewReader(data), filepath.Join(t.TempDir(), "a.db"), RestoreOptions{})
	if err != nil || len(restored.LeftOut) != 1 {
		t.Fatal(restored, err)
	}
	wantPrintable(t, "what was left out", restored.LeftOut[0])
}

// failingAt reads up to a place, and then fails.
type failingAt struct {
	in   io.ReaderAt
	at   int64
	fail func() error
}

func (f *failingAt) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.at {
		if err := f.fail(); err != nil {
			return 0, err
		}
	}
	return f.in.ReadAt(p, off)
}

// TestSalvageOfWhatCanNotBeRead: to find out how much of an encrypted file that was cut short can be read all of it is decrypted. That ends with the context, and a disk that fails is no end of the file.
func TestSalvageOfWhatCanNotBeRead(t *testing.T) {
	var all contentOf
	all.collection = Collection{Identity: identityOf("pods")}
	for i := range 40 {
		all.records = append(all.records, rec(fmt.Sprintf("a/%02d", i), 20_000))
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	data := content{collections: []contentOf{all}}.bytes(t, WriterOptions{Recipients: []age.Recipient{key.Recipient()}, block: 1})
	if len(data) < 4*chunkSize {
		t.Fatalf("%d bytes", len(data))
	}
	data = data[:len(data)-1000]
	broken := errors.New("the disk fails")
	for name, c := range map[string]struct {
		fail func(end context.CancelFunc) error
		want error
	}{
		"a disk that fails":   {func(context.CancelFunc) error { return broken }, broken},
		"a context that ends": {func(end context.CancelFunc) error { end(); return nil }, context.Canceled},
	} {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		in := &failingAt{in: bytes.NewReader(data), at: 2 * chunkSize, fail: func() error { return c.fail(end) }}
		if _, err := newRewinder(ctx, in, int64(len(data)), []age.Identity{key}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
