package store_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

const goldenChangelogPath = "testdata/golden-format-1-changelog.larder"

// writeGoldenChangelog writes a golden store with a durable handler that has unread changes: an update, a delete and a
// recreated pod. The handler has failed on another pod.
func writeGoldenChangelog(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.AtOnce(store.Options{}))
	c := mustCollection(t, s, pods())
	mustList(t, c, 5)
	f, err := c.OpenCursor(t.Context(), "golden")
	if err != nil {
		t.Fatal(err)
	}
	position, resets, err := f.Position()
	if err != nil {
		t.Fatal(err)
	}
	position.Replaying, position.Notified, position.Failing = false, true,
		map[string]uint64{somePod(1).Namespace + "/" + somePod(1).Name: position.Seq}
	if err := f.Acknowledge(position, resets); err != nil {
		t.Fatal(err)
	}
	changed, anew := somePod(0), somePod(3)
	changed.ResourceVersion, anew.ResourceVersion, anew.UID = "3000", "3002", "anew"
	_, err = c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: changed}, {Type: entry.Delete, Object: somePod(2)},
		{Object: anew}}, ResourceVersion: "3002"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutDocument(t.Context(), "golden", []byte("kept beside the collections")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	saveGolden(t, path, goldenChangelogPath)
}

func TestGoldenChangelog(t *testing.T) {
	if *updateGolden {
		writeGoldenChangelog(t)
	}
	path := copyGolden(t, goldenChangelogPath)
	for range 2 {
		s := mustOpen(t, path, store.Options{})
		if s.Quarantined() != "" {
			t.Fatal("the golden store was moved aside")
		}
		wantSound(t, s)
		if doc, err := s.Document(t.Context(), "golden"); string(doc) != "kept beside the collections" {
			t.Errorf("document %q, %v", doc, err)
		}
		wantGoldenChangelog(t, mustCollection(t, s, pods()))
		mustClose(t, s)
	}
}

func wantGoldenChangelog(t *testing.T, c *store.Collection) {
	t.Helper()
	f, err := c.OpenCursor(t.Context(), "golden")
	if err != nil {
		t.Fatal(err)
	}
	position, _, err := f.Position()
	if err != nil || position.Replaying || !slices.Equal(slices.Collect(maps.Keys(position.Failing)),
		[]string{"namespace-1/pod-0001"}) {
		t.Errorf("position %+v, %v", position, err)
	}
	page, _, err := f.Read(t.Context(), position)
	if err != nil || page.More {
		t.Fatalf("%+v, %v", page, err)
	}
	var got []string
	for _, c := range page.Changes {
		got = append(got, fmt.Sprint(c.Type, " ", c.Key, " ", c.UID, " ", c.ResourceVersion))
	}
	want := []string{
		"Upsert namespace-0/pod-0000 uid-0 3000", "Delete namespace-2/pod-0002 uid-2 1002",
		"Delete namespace-3/pod-0003 uid-3 1003", "Upsert namespace-3/pod-0003 anew 3002",
	}
	if !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}
