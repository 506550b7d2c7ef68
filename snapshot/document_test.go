package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// knownDiscovery is a discovery document of three groups, one of which has no objects in the store.
const knownDiscovery = `{"version":2,"fetched":"2026-01-02T03:04:05Z","groups":[` +
	`{"Group":{"name":"","versions":null,"preferredVersion":{"groupVersion":"","version":""}},"VersionedResources":{}},` +
	`{"Group":{"name":"apps","versions":null,"preferredVersion":{"groupVersion":"","version":""}},"VersionedResources":{}},` +
	`{"Group":{"name":"example.com","versions":null,"preferredVersion":{"groupVersion":"","version":""}},` +
	`"VersionedResources":{}}]}`

// known returns documents by name: all documents about an API server, and one document of another program.
func known() map[string]string {
	return map[string]string{
		"discovery": knownDiscovery, "openapi/api/v1": "A\n" + strings.Repeat("core", 5000),
		"openapi/apis/apps/v1": "B\napps", "openapi/apis/example.com/v1": "C\nwidgets",
		"server-version": `{"gitVersion":"v1.36.3"}`, "service-account-keys": `{"issuer":"https://cluster"}`, "other": "program",
	}
}

func putKnown(t *testing.T, s *store.Store) {
	t.Helper()
	for name, data := range known() {
		if err := s.PutDocument(t.Context(), name, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
}

type documented interface {
	Documents(ctx context.Context) ([]string, error)
	Document(ctx context.Context, name string) ([]byte, error)
}

func wantDocuments(t *testing.T, in documented, want ...string) {
	t.Helper()
	slices.Sort(want)
	got, err := in.Documents(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("documents %q, %v, want %q", got, err, want)
	}
	for _, name := range got {
		data, err := in.Document(t.Context(), name)
		if err != nil || name != "discovery" && string(data) != known()[name] {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func wantGroups(t *testing.T, in documented, want ...string) {
	t.Helper()
	data, err := in.Document(t.Context(), "discovery")
	var got []string
	for _, part := range strings.Split(string(data), `"name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		got = append(got, name)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("groups %q, %v, want %q", got, err, want)
	}
}

// TestSaveDocuments checks that a snapshot, a snapshot of a part, and a restored store have the documents, such as
// schemas, of exactly the group-versions of their collections.
func TestSaveDocuments(t *testing.T) {
	dir := t.TempDir()
	s := savedStore(t, filepath.Join(dir, "a.db"))
	putKnown(t, s)
	whole := filepath.Join(dir, "whole.larder")
	if _, err := snapshot.SaveStore(t.Context(), s, whole, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	f := mustOpenFile(t, whole, snapshot.OpenOptions{})
	carried := []string{"discovery", "openapi/api/v1", "openapi/apis/example.com/v1", "server-version",
		"service-account-keys"}
	wantDocuments(t, f, carried...)
	wantGroups(t, f, "", "example.com")
	if v := f.Manifest().ServerVersion; v != "v1.36.3" {
		t.Errorf("of a server %s", v)
	}
	if r, err := f.Verify(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("%q, %v", r.Problems, err)
	}
	restored, _ := mustRestore(t, whole, snapshot.RestoreOptions{})
	// Without a signature, the keys of service accounts are not restored: see TestRestoreOfKeys.
	wantDocuments(t, restored, carried[:4]...)
	wantGroups(t, restored, "", "example.com")

	part := mustPart(t, whole, snapshot.SelectOptions{Filter: snapshot.Filter{Resources: []string{"pods"}}})
	f = mustOpenFile(t, part, snapshot.OpenOptions{})
	wantDocuments(t, f, "discovery", "openapi/api/v1", "server-version", "service-account-keys")
	wantGroups(t, f, "")

	redacted := mustPart(t, whole, snapshot.SelectOptions{Redaction: snapshot.Redaction{ConfigMaps: true}})
	f = mustOpenFile(t, redacted, snapshot.OpenOptions{})
	wantDocuments(t, f, "discovery", "openapi/api/v1", "openapi/apis/example.com/v1", "server-version")
	again := mustPart(t, redacted, snapshot.SelectOptions{})
	wantDocuments(t, mustOpenFile(t, again, snapshot.OpenOptions{}), "discovery", "openapi/api/v1",
		"openapi/apis/example.com/v1", "server-version")
}

// TestSaveDamagedDocuments checks that a damaged document is left out if a store has it, but not if a snapshot has it.
func TestSaveDamagedDocuments(t *testing.T) {
	dir := t.TempDir()
	db, path := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.larder")
	s := savedStore(t, db)
	putKnown(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(db)
	if err == nil {
		err = os.WriteFile(db, bytes.ReplaceAll(data, []byte("C\nwidgets"), []byte("C\nWidgets")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	saved, err := saveFile(t, db, path, store.Options{}, snapshot.SaveOptions{})
	if err != nil || !slices.ContainsFunc(saved.LeftOut, func(why string) bool {
		return strings.HasPrefix(why, "document openapi/apis/example.com/v1: ")
	}) {
		t.Fatalf("%q, %v", saved.LeftOut, err)
	}
	f := mustOpenFile(t, path, snapshot.OpenOptions{})
	wantDocuments(t, f, "discovery", "openapi/api/v1", "server-version", "service-account-keys")
	if got := f.Manifest().LeftOut; !slices.Equal(got, saved.LeftOut) {
		t.Errorf("left out %q, want %q", got, saved.LeftOut)
	}
	data, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := partsOf(data)
	data[parts[slices.IndexFunc(parts, func(p part) bool { return p.first == "server-version" })].start] ^= 1
	if _, err := restoreBytes(t, data, filepath.Join(dir, "b.db"), snapshot.RestoreOptions{}); !errors.Is(err,
		snapshot.ErrDamaged) {
		t.Errorf("restore: %v", err)
	}
	if _, err := snapshot.Save(t.Context(), fileOfBytes(t, data), filepath.Join(dir, "b.larder"),
		snapshot.SaveOptions{}); !errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("save: %v", err)
	}
	if r, err := fileOfBytes(t, data).Verify(t.Context()); err != nil || len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0], `"server-version"`) {
		t.Errorf("verify: %q, %v", r.Problems, err)
	}
	wantNames(t, dir, "a.db", "a.larder")
}

func TestSaveServerDocuments(t *testing.T) {
	srv := startServer(t)
	path := filepath.Join(t.TempDir(), "a.larder")
	documents := map[string][]byte{}
	for name, data := range maps.All(known()) {
		documents[name] = []byte(data)
	}
	if _, err := snapshot.SaveServer(t.Context(), listings(t, srv), path,
		snapshot.SaveOptions{Documents: documents}); err != nil {
		t.Fatal(err)
	}
	wantDocuments(t, mustOpenFile(t, path, snapshot.OpenOptions{}), "discovery", "openapi/api/v1", "server-version",
		"service-account-keys")
}

// TestWriterRefusesDocuments checks that the writer refuses documents that a reader would refuse.
func TestWriterRefusesDocuments(t *testing.T) {
	w := mustWriter(t, &strings.Builder{})
	if err := w.Document("d", nil); err != nil {
		t.Error(err)
	}
	for name, data := range map[string][]byte{"": nil, "\xff": nil, "d": nil, "large": make([]byte, maxPart+1)} {
		if err := w.Document(name, data); err == nil {
			t.Errorf("%q: it was written", name)
		}
	}
}
