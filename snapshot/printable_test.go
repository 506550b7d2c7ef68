package snapshot_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

const escapes = "x\x1b[2J\nerror: all is well"

func wantPrintable(t *testing.T, what, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\x1b\n") || !strings.Contains(text, `x\x1b[2J\n`) {
		t.Errorf("%s: %q", what, text)
	}
}

// TestTextsOfFilesArePrintable checks that errors and reports escape terminal escapes and line feeds from a file.
func TestTextsOfFilesArePrintable(t *testing.T) {
	newer := content{header: snapshot.Header{Larder: escapes}}.bytes(t, snapshot.WithVersion(snapshot.WriterOptions{}, 2))
	_, err := snapshot.NewFile(bytes.NewReader(newer), int64(len(newer)), snapshot.OpenOptions{})
	if !errors.Is(err, snapshot.ErrNewerFormat) {
		t.Fatal(err)
	}
	wantPrintable(t, "the program that wrote it", err.Error())
	wantPrintable(t, "damage", (&snapshot.DamageError{Collection: escapes}).Error())

	secret := collectionOf(core("secrets"), "Secret", entry.Unstructured)
	secret.Identity.Namespace = escapes
	secret.Sealed = true
	other := collectionOf(core("pods"), "Pod", entry.Unstructured)
	other.Identity.Resource, other.Identity.Group = escapes, escapes
	data := content{collections: []contentOf{{secret, nil},
		{other, []entry.Entry{{Key: "a", Encoding: encodingMsgpack,
			Payload: []byte("\x80")}}}}}.bytes(t, snapshot.WriterOptions{})
	report, err := fileOfBytes(t, data).Verify(t.Context())
	if err != nil || len(report.Problems) == 0 {
		t.Fatal(report, err)
	}
	for _, p := range report.Problems {
		wantPrintable(t, "a problem", p)
	}
	restored, err := restoreBytes(t, data, filepath.Join(t.TempDir(), "a.db"), snapshot.RestoreOptions{})
	if err != nil || len(restored.LeftOut) != 1 {
		t.Fatal(restored, err)
	}
	wantPrintable(t, "what was left out", restored.LeftOut[0])
}
