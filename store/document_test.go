package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

func mustDocument(t *testing.T, s *store.Store, name string) []byte {
	t.Helper()
	data, err := s.Document(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustPutDocument(t *testing.T, s *store.Store, name, data string) {
	t.Helper()
	if err := s.PutDocument(t.Context(), name, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

var large = strings.Repeat("0123456789abcdef", 10_000)

// TestDocument also checks that PutDocument does not write unchanged data.
func TestDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{Logger: &quiet})
	if got := mustDocument(t, s, "discovery"); got != nil {
		t.Errorf("%q before anything was stored", got)
	}
	mustPutDocument(t, s, "discovery", "first")
	mustPutDocument(t, s, "discovery", large)
	mustPutDocument(t, s, "empty", "")
	mustPutDocument(t, s, string(disk.Clean), "a name that the root has too")
	wrote := s.Written()
	mustPutDocument(t, s, "discovery", large)
	if n := s.Written() - wrote; n != 0 {
		t.Errorf("%d bytes were written of what is there already", n)
	}
	same := func(after string) {
		t.Helper()
		if got := mustDocument(t, s, "discovery"); string(got) != large {
			t.Errorf("after %s: %d bytes, want %d", after, len(got), len(large))
		}
		if got := mustDocument(t, s, "empty"); got == nil || len(got) != 0 {
			t.Errorf("after %s: %q, want nothing, stored", after, got)
		}
		if got := mustDocument(t, s, string(disk.Clean)); got == nil {
			t.Errorf("after %s: a document is lost", after)
		}
		if infos, err := s.Collections(t.Context()); err != nil || len(infos) != 1 {
			t.Errorf("after %s: %d collections, %v", after, len(infos), err)
		}
		if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
			t.Errorf("after %s: %q, %v", after, r.Problems, err)
		}
	}
	mustList(t, mustCollection(t, s, pods()), 10)
	same("it was written")
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	same("a compaction")
	failNow(t, s)
	mustCopyAgain(t, s)
	same("a write of unknown outcome")
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{ReadOnly: true})
	same("a restart")
	if err := s.PutDocument(t.Context(), "discovery", nil); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("of a store that is open for reading: %v", err)
	}
	mustClose(t, s)
}

func TestDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{Logger: &quiet})
	is := func(want ...string) {
		t.Helper()
		if got, err := s.Documents(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	is()
	if err := s.DeleteDocument(t.Context(), "none"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"b", "openapi/apis/apps/v1", "a", "c"} {
		mustPutDocument(t, s, name, large)
	}
	is("a", "b", "c", "openapi/apis/apps/v1")
	wrote := s.Written()
	if err := s.DeleteDocument(t.Context(), "none"); err != nil || s.Written() != wrote {
		t.Errorf("%d bytes were written to delete nothing, %v", s.Written()-wrote, err)
	}
	if err := s.DeleteDocument(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	is("a", "c", "openapi/apis/apps/v1")
	if got := mustDocument(t, s, "b"); got != nil {
		t.Errorf("%d bytes", len(got))
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{ReadOnly: true})
	is("a", "c", "openapi/apis/apps/v1")
	for _, name := range []string{"a", "none"} {
		if err := s.DeleteDocument(t.Context(), name); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("of a store that is open for reading: %v", err)
		}
	}
	mustClose(t, s)
}

func TestDocumentTooLarge(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	mustPutDocument(t, s, "d", "small")
	if err := s.PutDocument(t.Context(), "d", make([]byte, 16<<20+1)); err == nil {
		t.Error("it was stored")
	}
	if got := mustDocument(t, s, "d"); string(got) != "small" {
		t.Errorf("%q", got)
	}
	mustClose(t, s)
}

// TestDamagedDocument checks that PutDocument repairs a document with a wrong checksum, and that the copy of a
// damaged file leaves it out.
func TestDamagedDocument(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Logger: &quiet})
	mustPutDocument(t, s, "d", large)
	mustPutDocument(t, s, "e", "short")
	damage := func() {
		t.Helper()
		patch(t, s, func(data []byte) { // damages all copies of the document, also in free pages
			for rest := data; ; rest = rest[len(large):] {
				at := bytes.Index(rest, []byte(large[:100]))
				if at < 0 {
					return
				}
				rest = rest[at:]
				rest[1000] ^= 1
			}
		})
		if _, err := s.Document(t.Context(), "d"); !errors.Is(err, entry.ErrDamaged) ||
			!strings.Contains(err.Error(), `"d"`) {
			t.Fatalf("a flipped bit: %v", err)
		}
	}
	damage()
	if err := s.Err(); err != nil {
		t.Errorf("the store has stopped: %v", err)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], `"d"`) {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
	mustPutDocument(t, s, "d", large)
	if got := mustDocument(t, s, "d"); string(got) != large {
		t.Errorf("%d bytes", len(got))
	}
	if _, err := s.Compact(t.Context()); err != nil { // removes the free pages, which have old copies of the document
		t.Fatal(err)
	}
	damage()
	s = salvage(t, s, store.Options{Logger: &quiet})
	if got := mustDocument(t, s, "d"); got != nil {
		t.Errorf("%d bytes after the repair", len(got))
	}
	if got := mustDocument(t, s, "e"); string(got) != "short" {
		t.Errorf("the other document is %q", got)
	}
	mustClose(t, s)
}

// TestSalvageBesideDocuments checks that Open survives a branch page of documents that points to itself.
func TestSalvageBesideDocuments(t *testing.T) {
	s, _, _ := filled(t, store.Options{})
	// The documents' bucket gets a branch page only with several long names.
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		mustPutDocument(t, s, strings.Repeat(name, 700), strings.Repeat("x", 3000))
	}
	patched := 0
	patch(t, s, func(data []byte) {
		for _, off := range pagesOf(t, data)["branch"] {
			if page := data[off : off+filePageSize]; bytes.Contains(page, bytes.Repeat([]byte("c"), 700)) {
				last := int(binary.NativeEndian.Uint16(page[10:])) - 1
				copy(page[16+16*last+8:], page[:8])
				patched++
			}
		}
	})
	if patched == 0 {
		t.Fatal("the documents have no branch page")
	}
	s = salvage(t, s, store.Options{})
	if n, info := count(t, mustCollection(t, s, pods())); n != 1000 || !info.Complete || info.MustRelist != "" {
		t.Errorf("%d objects are left: %+v", n, info)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
	if _, err := s.Document(t.Context(), strings.Repeat("a", 700)); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// TestStoreWithoutDocuments checks documents in a file of an older program, which has no bucket for them.
func TestStoreWithoutDocuments(t *testing.T) {
	data, err := os.ReadFile(goldenPath(store.FormatVersion))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, store.Options{})
	if got := mustDocument(t, s, "d"); got != nil {
		t.Errorf("%q", got)
	}
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = store.ViewFile(t.Context(), s, func(tx *bolt.Tx) error {
		if tx.Bucket(disk.Documents) != nil {
			t.Error("a bucket has been made for nothing")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustPutDocument(t, s, "d", "x")
	mustClose(t, s)
}
