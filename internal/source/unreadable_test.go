package source

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestSkipsDamagedEntries checks that undamaged objects are read although other objects are damaged. The error names
// the damaged objects that the query may select.
func TestSkipsDamagedEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	web := map[string]string{"app": "web"}
	st, id := podsIn(t, path, pod("a", "x", nil), pod("b", "x", nil), pod("b", "y", nil), pod("c", "x", nil),
		pod("c", "y", web))
	must(t, st.Close())
	flip(t, path, id, "b/x", "c/x")
	st, err := store.Open(path, store.Options{ReadOnly: true})
	must(t, err)
	file := NewFile(st)
	defer func() { _ = file.Close() }()
	client, _ := serve(t, holding{file})
	for _, src := range []Source{file, client} {
		for _, tc := range []struct {
			q        Query
			want     []string
			problems []string
		}{
			{Query{}, []string{"a/x", "b/y", "c/y"}, []string{"b/x", "c/x"}},
			{Query{Namespace: "b"}, []string{"b/y"}, []string{"b/x"}},
			{Query{Namespace: "a"}, []string{"a/x"}, nil},
			{Query{Namespace: "b", Name: "x"}, []string{}, []string{"b/x"}},
			{Query{Selector: "app=web"}, []string{"c/y"}, []string{"b/x", "c/x"}},
			{Query{Namespace: "b", Fields: "metadata.name=z"}, []string{}, []string{"b/x"}},
			{Query{Namespace: "b", KeysOnly: true}, []string{"b/x", "b/y"}, nil},
		} {
			tc.q.Collection = id
			got, err := collect(t.Context(), src, tc.q)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%T %+v: %s", src, tc.q, d)
			}
			var unreadable *UnreadableError
			if errors.As(err, &unreadable) != (len(tc.problems) > 0) || (err != nil) != (len(tc.problems) > 0) {
				t.Errorf("%T %+v: got %v", src, tc.q, err)
			}
			for _, p := range tc.problems {
				if !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), p) || unreadable.Count != len(tc.problems) {
					t.Errorf("%T %+v: got %v, want one that names %s", src, tc.q, err, p)
				}
			}
		}
	}
}

func flip(t *testing.T, path, collection string, keys ...string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, collection)
		for _, key := range keys {
			if err == nil {
				err = disk.Flip(b.Bucket(disk.Objects), []byte(key))
			}
		}
		return err
	})
	must(t, errors.Join(err, db.Close()))
}

func TestUnreadableErrorIsBounded(t *testing.T) {
	var all UnreadableError
	for i := range 100 {
		all.Merge(&UnreadableError{Count: 1, Problems: []string{fmt.Sprint("record ", i)}})
	}
	text := all.Error()
	if !strings.HasPrefix(text, "100 objects could not be read:\n  record 0\n") ||
		!strings.HasSuffix(text, "record 19\n  … and 80 more") {
		t.Error(text)
	}
}
