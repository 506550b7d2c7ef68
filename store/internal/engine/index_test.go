package engine_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
)

// byWord indexes a text by its words. It fails for "bad" and panics for "panic".
func byWord(obj any) ([]string, error) {
	words := strings.Fields(obj.(string))
	switch {
	case slices.Contains(words, "bad"):
		return nil, fmt.Errorf("a bad word")
	case slices.Contains(words, "panic"):
		panic("a word of the object")
	}
	return words, nil
}

func mustSet(t *testing.T, version string) *engine.IndexSet {
	t.Helper()
	s, err := engine.NewIndexSet(cache.Indexers{"word": byWord}, map[string]string{"word": version})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTerms(t *testing.T) {
	s := mustSet(t, "")
	for obj, want := range map[string][]string{"": nil, "b a b": {"a", "b"}} {
		if terms, err := s.Terms(obj); err != nil || !slices.Equal(terms["word"], want) || len(terms) != min(len(want), 1) {
			t.Errorf("%q: %q, %v", obj, terms, err)
		}
	}
	for _, obj := range []string{"a bad", "a panic"} {
		if terms, err := s.Terms(obj); err == nil || len(terms) != 0 || strings.Contains(err.Error(), "of the object") {
			t.Errorf("%q: %q, %v", obj, terms, err)
		}
	}
	ready := s.WithReady("word", "unknown")
	if got := ready.TermsOf(map[string][]string{"word": {"stored"}}, "key", "a"); got["word"][0] != "stored" {
		t.Errorf("of a ready index: %q", got)
	}
	if got := s.TermsOf(map[string][]string{"word": {"stored"}}, "key", "a"); got["word"][0] != "a" {
		t.Errorf("of an index that is being built: %q", got)
	}
}

// TestClaim checks that only an index with complete entries and an unchanged function is used without a build.
func TestClaim(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		have    format.IndexState
		empty   bool
		want    bool
	}{
		"same version":    {"1", format.IndexState{Version: "1", Ready: true}, false, true},
		"another version": {"2", format.IndexState{Version: "1", Ready: true}, false, false},
		"no version":      {"", format.IndexState{Ready: true}, false, false},
		"not built":       {"1", format.IndexState{Version: "1"}, false, false},
		"no objects":      {"", format.IndexState{}, true, true},
	} {
		states := map[string]format.IndexState{"word": test.have}
		ready := mustSet(t, test.version).Claim(states, test.empty)
		want := format.IndexState{Version: test.version, Ready: test.want}
		if states["word"] != want || (len(ready) == 1) != test.want {
			t.Errorf("%s: %+v, ready: %q", name, states["word"], ready)
		}
	}
}

// TestReaderModel checks that an IndexReader finds each text by its last written words, in the file or in the memtable.
func TestReaderModel(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	set := mustSet(t, "1")
	rapid.Check(t, func(t *rapid.T) {
		tx, err := db.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		b, err := tx.CreateBucket([]byte("collection"))
		if err == nil {
			_, err = b.CreateBucket(format.BucketIndex)
		}
		if err == nil {
			_, err = b.Bucket(format.BucketIndex).CreateBucket([]byte("word"))
		}
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]format.IndexState{"word": {Ready: rapid.Bool().Draw(t, "ready")}}
		entries, err := engine.OpenIndexEntries("c", b, states)
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.Custom(func(t *rapid.T) string {
			words := []string{"a", "a\x00b", strings.Repeat("long", 10_000), "ab", "ä"}
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, "words"), " ")
		})
		texts := rapid.MapOf(rapid.SampledFrom([]string{"a/1", "a/2", "b/1"}), text)
		model := map[string]string{}
		for _, next := range rapid.SliceOfN(texts, 1, 5).Draw(t, "transactions") {
			for key, text := range next {
				if err := entries.Move(key, set.WorkingTerms(key, model[key]), set.WorkingTerms(key, text)); err != nil {
					t.Fatal(err)
				}
				model[key] = text
			}
		}
		over := texts.Draw(t, "over")
		maps.Copy(model, over)
		compare(t, set, model, reader(set, b, over))
	})
}

// reader returns an IndexReader of the index in b. In place of a memtable, over has the uncommitted texts by key.
func reader(set *engine.IndexSet, b *bolt.Bucket, over map[string]string) engine.IndexReader {
	return func(_ context.Context, want engine.Lookup, fn func(engine.IndexView) error) error {
		src := engine.IndexSource{Filed: map[string][]string{}, Dirty: func(key string) bool { _, ok := over[key]; return ok }}
		for _, key := range slices.Sorted(maps.Keys(over)) {
			for _, word := range set.WorkingTerms(key, over[key])["word"] {
				src.Filed[word] = append(src.Filed[word], key)
			}
		}
		v, err := engine.NewIndexView("c", b, want.Index, src)
		if err != nil {
			return err
		}
		return fn(v)
	}
}

func compare(t *rapid.T, set *engine.IndexSet, model map[string]string, r engine.IndexReader) {
	want := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(model)) {
		for _, word := range set.WorkingTerms(key, model[key])["word"] {
			want[word] = append(want[word], key)
		}
	}
	values, err := r.IndexValues(context.Background(), "word")
	if err != nil || !slices.Equal(values, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("values %q, %v; want %q", values, err, slices.Sorted(maps.Keys(want)))
	}
	for value, keys := range want {
		if got, err := r.IndexKeys(context.Background(), "word", value); err != nil || !slices.Equal(got, keys) {
			t.Fatalf("%.20q: %q, %v; want %q", value, got, err, keys)
		}
	}
}
