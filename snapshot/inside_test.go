package snapshot

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/layout"
)

// TestRedactEnvByNameOfAnyKind checks that numbers and booleans are redacted in an env map of a custom resource, but
// not maps and lists, which are no values of variables.
func TestRedactEnvByNameOfAnyKind(t *testing.T) {
	r, err := newRedaction(Redaction{Env: []string{"*PIN", "nested"}})
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]any{"PIN": int64(1234), "HAS_PIN": true, "RATIO_PIN": 0.5, "nested": map[string]any{"a": "b"},
		"NOPIN": nil, "x": "y"}
	if !r.apply(map[string]any{"spec": map[string]any{"env": env}}) {
		t.Error("nothing was redacted")
	}
	want := map[string]any{"PIN": redactedText, "HAS_PIN": redactedText, "RATIO_PIN": redactedText,
		"nested": map[string]any{"a": "b"}, "NOPIN": nil, "x": "y"}
	if d := cmp.Diff(want, env); d != "" {
		t.Error(d)
	}
}

// TestSpoolIsSealed checks that the temporary file of a streamed snapshot (spool) has no plain text and does not stay.
func TestSpoolIsSealed(t *testing.T) {
	dir := t.TempDir()
	const secretText = "secret-text"
	s, err := newSpool(filepath.Join(dir, "a.larder"))
	if err != nil {
		t.Fatal(err)
	}
	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
	w, err := newWriter(s, Header{}, writerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := entry.Entry{Key: "ns/s", Encoding: "protobuf", Payload: bytes.Repeat([]byte(secretText), 10_000)}
	if err := errors.Join(w.Begin(id), w.Add(r)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.End(Collection{Identity: id}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := f.Get(t.Context(), id, "ns/s"); !ok || err != nil || !bytes.Equal(got.Payload, r.Payload) {
		t.Errorf("%v, %d bytes, %v", ok, len(got.Payload), err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", s.f.Fd()))
	if err == nil && (len(data) == 0 || bytes.Contains(data, []byte(secretText))) {
		t.Errorf("%d bytes, in plain text", len(data))
	}
	s.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestLargeBuffersAreReleased checks that a writer and a File do not keep buffers that are larger than a block.
func TestLargeBuffersAreReleased(t *testing.T) {
	large := make([]byte, layout.MaxPart-100)
	_, _ = rand.Read(large) // never fails; the data is incompressible
	var b bytes.Buffer
	w, err := newWriter(&b, Header{}, writerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
	if err := errors.Join(w.Begin(id), w.Add(entry.Entry{Key: "a", Payload: large}),
		w.Add(entry.Entry{Key: "bb"})); err != nil {
		t.Fatal(err)
	}
	if _, err := w.End(Collection{Identity: id}); err != nil {
		t.Fatal(err)
	}
	if n := cap(w.block); n > 4*layout.BlockTarget {
		t.Errorf("the writer keeps %d bytes", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := NewFile(bytes.NewReader(b.Bytes()), int64(b.Len()), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := f.index(0)
	if err != nil || len(blocks) != 2 {
		t.Fatal(blocks, err)
	}
	buf := &buffer{}
	for _, block := range blocks {
		if _, err := f.records(buf, 0, block); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(buf.data); n > 4*layout.BlockTarget {
		t.Errorf("the File keeps %d bytes", n)
	}
}
