package snapshot

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// Tests of single parts that cannot be seen from outside.

func TestIgnorePaths(t *testing.T) {
	const object = `{"a":{"b":1,"c.d/e":2},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`
	for path, want := range map[string]string{
		"a":                      `{"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		".a.b":                   `{"a":{"c.d/e":2},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		`a["c.d/e"]`:             `{"a":{"b":1},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		"/a/c.d~1e":              `{"a":{"b":1},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		"l[*].x":                 `{"a":{"b":1,"c.d/e":2},"l":[{"y":2},{}],"s":"t"}`,
		"l[*]":                   `{"a":{"b":1,"c.d/e":2},"l":[],"s":"t"}`,
		"l[0]":                   `{"a":{"b":1,"c.d/e":2},"l":[{"x":3}],"s":"t"}`,
		"/l/1":                   `{"a":{"b":1,"c.d/e":2},"l":[{"x":1,"y":2}],"s":"t"}`,
		"/l/2":                   object,
		"/l/-1":                  object,
		"/t~01":                  object,
		"/l/1/x":                 `{"a":{"b":1,"c.d/e":2},"l":[{"x":1,"y":2},{}],"s":"t"}`,
		"a.*":                    `{"a":{},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		"*.b":                    `{"a":{"c.d/e":2},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		"s.t.u":                  object,
		"nothing.of.the.kind[3]": object,
	} {
		p, err := parsePaths([]string{path})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(object), &m); err != nil {
			t.Fatal(err)
		}
		p.remove(m)
		if got, _ := json.Marshal(m); string(got) != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for _, bad := range []string{"", ".", "a..b", "a.", "a[", "a[]", `a["b]`, `a["b"`, "[\"x\"]y", "/a/~", "/a~2b"} {
		if p, err := parsePaths([]string{bad}); err == nil {
			t.Errorf("%q is taken as %q", bad, p)
		}
	}
}

// Variables by name in custom resources may be numbers, or true: they are values all the same. What holds others is
// none.
func TestRedactEnvByNameOfAnyKind(t *testing.T) {
	r, err := newRedaction(Redaction{Env: []string{"*PIN", "nested"}}, schema.GroupResource{Resource: "widgets"})
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

// fullDisk is a store on a disk without room. tried are the places that it was to be copied to.
type fullDisk struct {
	tried []string
}

func (f *fullDisk) CopyFile(_ context.Context, base string) (string, error) {
	if f.tried = append(f.tried, base); base == "" {
		return "", store.ErrNoSpace
	}
	return base + ".new-x", nil
}

// TestCopyOfAnEncryptedSaveStaysBesideTheStore: the copy is not encrypted, and what is beside the snapshot may be
// another medium.
func TestCopyOfAnEncryptedSaveStaysBesideTheStore(t *testing.T) {
	plain, encrypted := &fullDisk{}, &fullDisk{}
	if name, err := copyToSave(t.Context(), plain, "a.larder", false); name != "a.larder.new-x" || err != nil {
		t.Errorf("not encrypted: %q, %v", name, err)
	}
	name, err := copyToSave(t.Context(), encrypted, "a.larder", true)
	if name != "" || !errors.Is(err, store.ErrNoSpace) || !strings.HasSuffix(err.Error(), "make room beside the store") {
		t.Errorf("encrypted: %q, %v", name, err)
	}
	if want := []string{""}; !slices.Equal(encrypted.tried, want) {
		t.Errorf("encrypted: it was copied to %q", encrypted.tried)
	}
}

// What cannot be opened for writing may be what another save makes, and is left.
func TestSaveLeavesWhatItCanNotLookAt(t *testing.T) {
	dir := t.TempDir()
	name := "a.larder" + suffixNew + "OTHER"
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil { // which nobody can write to, root neither
		t.Fatal(err)
	}
	removeDead(filepath.Join(dir, name))
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		t.Error(err)
	}
}

// TestSpoolIsSealed: what is kept of a list until it is whole cannot be read by others, and leaves nothing.
func TestSpoolIsSealed(t *testing.T) {
	dir := t.TempDir()
	const plantedSecret = "planted-secret"
	s, err := newSpool(filepath.Join(dir, "a.larder"),
		Collection{Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.w.Add(entry.Entry{Key: "ns/s", Encoding: "protobuf",
		Payload: bytes.Repeat([]byte(plantedSecret), 10_000)}); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := s.replay(t.Context(), func(r entry.Entry) error { n += len(r.Payload); return nil }); err != nil ||
		n != 10_000*len(plantedSecret) {
		t.Errorf("%d bytes, %v", n, err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", s.f.Fd()))
	if err == nil && (len(data) == 0 || bytes.Contains(data, []byte(plantedSecret))) {
		t.Errorf("%d bytes, in plain text", len(data))
	}
	s.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// A stream of records larger than a block does not leave its memory behind.
func TestLargeRecordsAreLetGo(t *testing.T) {
	large := make([]byte, maxBody-100)
	_, _ = rand.Read(large) // never fails; it does not compress
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{}, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Begin(
		Collection{Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
			Representation: entry.Typed}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []entry.Entry{{Key: "a", Payload: large}, {Key: "bb"}} {
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{cap(w.block), cap(w.out), cap(w.pack.out)} {
		if n > 4*blockTarget {
			t.Errorf("the Writer keeps %d bytes", n)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&b, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.NextCollection(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(r.unpack.out); n > 4*blockTarget {
		t.Errorf("the Reader keeps %d bytes", n)
	}
}
