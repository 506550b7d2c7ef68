package snapshot_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// oneNamespace is the number of served pods in the namespace ns-1.
const oneNamespace = (servedPods + 5) / 7

func inOneNamespace() snapshot.SelectOptions {
	return snapshot.SelectOptions{Filter: snapshot.Filter{Namespaces: []string{"ns-1"}}}
}

func wantOneNamespace(t *testing.T, what string, src snapshot.Source) {
	t.Helper()
	all, err := src.Collections(t.Context())
	if err != nil || len(all) != 1 {
		t.Errorf("%s: %+v, %v", what, all, err)
		return
	}
	if n := len(recordsOf(t, src, savedPods)); n != oneNamespace || !all[0].Resource.Namespaced {
		t.Errorf("%s: %d pods, want %d; %+v", what, n, oneNamespace, all[0])
	}
}

// TestNamespaceFilterOfUnknownScope filters by namespace collections whose informer did not know that they are
// namespaced.
func TestNamespaceFilterOfUnknownScope(t *testing.T) {
	srv := startServer(t)
	dir := t.TempDir()
	db, whole, part := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.larder"), filepath.Join(dir, "b.larder")
	runInformer(t, srv, db, fmt.Sprintf("%d added, 0 updated, 0 deleted", servedPods))
	s := mustOpen(t, db)
	if _, err := snapshot.SaveStore(t.Context(), s, whole, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.SaveStore(t.Context(), s, part,
		snapshot.SaveOptions{SelectOptions: inOneNamespace()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantOneNamespace(t, "saved", mustOpenFile(t, part, snapshot.OpenOptions{}))
	st, _ := mustRestore(t, mustPart(t, whole, inOneNamespace()), snapshot.RestoreOptions{})
	wantOneNamespace(t, "restored", snapshot.StoreSource(st))
}

// unknownScope returns a snapshot of pods and nodes whose program did not know which of them are namespaced.
func unknownScope(t *testing.T) []byte {
	t.Helper()
	var all content
	for kind, texts := range map[string][]string{
		"Pod":  {`"name":"x","namespace":"a","uid":"1"`, `"name":"x","namespace":"b","uid":"2"`},
		"Node": {`"name":"x","uid":"3"`},
	} {
		of := contentOf{collection: collectionOf(core(strings.ToLower(kind)+"s"), kind, entry.Unstructured)}
		of.collection.Resource.Namespaced = false
		for _, text := range texts {
			of.records = append(of.records, recordOf(t, of.collection,
				fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{%s}}`, kind, text)))
		}
		all.collections = append(all.collections, of)
	}
	return all.bytes(t, snapshot.WriterOptions{})
}

func TestScopeFromKeys(t *testing.T) {
	data := unknownScope(t)
	whole, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.db")
	in := snapshot.SelectOptions{Filter: snapshot.Filter{Namespaces: []string{"b"}}}
	if _, err := restoreBytes(t, data, path, snapshot.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	for what, src := range map[string]snapshot.Source{"at random": whole,
		"restored": snapshot.StoreSource(mustOpen(t, path))} {
		selected, err := snapshot.Select(src, in)
		if err != nil {
			t.Fatal(err)
		}
		all, err := selected.Collections(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range all {
			for _, r := range recordsOf(t, selected, c.Identity) {
				got = append(got, fmt.Sprint(c.Resource.Kind, " ", c.Resource.Namespaced, " ", r.Key))
			}
		}
		if want := []string{"Pod true b/x"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
}

// TestTakesByScope checks that a namespace filter takes an empty collection unless a server has described its resource.
func TestTakesByScope(t *testing.T) {
	some := snapshot.Filter{Namespaces: []string{"a"}}
	of := func(r entry.ResourceInfo, objects int) snapshot.Collection {
		return snapshot.Collection{Identity: identityOf("things"), Resource: r, Objects: objects}
	}
	for name, tc := range map[string]struct {
		c    snapshot.Collection
		want bool
	}{
		"namespaced":                    {of(entry.ResourceInfo{Kind: "Thing", Namespaced: true}, 3), true},
		"nothing is known":              {of(entry.ResourceInfo{}, 0), true},
		"a kind, as a program knows it": {of(entry.ResourceInfo{Kind: "Thing", Singular: "thing"}, 0), true},
		"described as by a server":      {of(entry.ResourceInfo{Kind: "Thing", ShortNames: []string{"th"}}, 0), false},
		"objects in no namespace":       {of(entry.ResourceInfo{Kind: "Thing"}, 3), false},
	} {
		if got := some.Takes(tc.c); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
