package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// checked fills a store that the test will damage: storetest.Open would fail the test for the damage at its end.
func checked(t *testing.T) (*store.Store, *store.Collection) {
	t.Helper()
	s, err := store.Open(t.TempDir()+"/larder.db", store.AtOnce(store.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := openPods(t, s, byNamespaceAndColor)
	fill(t, c, 1100)
	return s, c
}

func TestCheckCounts(t *testing.T) {
	s, _ := checked(t)
	r, err := store.CheckContent(context.Background(), s)
	if err != nil || len(r.Problems) != 0 || r.Collections != 1 || r.Objects != 1100 || r.IndexEntries != 2200 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := store.CheckContent(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	objects, indexes, key := disk.Objects, disk.Index, []byte("ns1/pod0001")
	color := func(b *bolt.Bucket) *bolt.Bucket { return b.Bucket(indexes).Bucket([]byte("color")) }
	for _, test := range []struct {
		name   string
		tamper func(b *bolt.Bucket) error
		want   []string
	}{
		{"a flipped bit in a body", func(b *bolt.Bucket) error {
			data := bytes.Clone(b.Bucket(objects).Get(key))
			data[len(data)-3] ^= 4
			return b.Bucket(objects).Put(key, data)
		}, []string{"ns1/pod0001", "checksum"}},
		{"a record under another key", func(b *bolt.Bucket) error {
			return b.Bucket(objects).Put([]byte("ns1/other"), b.Bucket(objects).Get(key))
		}, []string{"ns1/other", "checksum"}},
		{"a record that is gone", func(b *bolt.Bucket) error {
			return b.Bucket(objects).Delete(key)
		}, []string{`index "color" files "ns1/pod0001"`, "not there"}},
		{"a count that is wrong", func(b *bolt.Bucket) error {
			return b.Bucket(objects).Delete(key)
		}, []string{"1099 objects", "1100"}},
		{"an index entry that is gone", func(b *bolt.Bucket) error {
			k, _ := color(b).Cursor().First()
			return color(b).Delete(k)
		}, []string{"is not in index", `"color"`}},
		{"an index entry of a value that the object does not have", func(b *bolt.Bucket) error {
			k, _ := color(b).Cursor().First()
			return color(b).Put(bytes.Replace(k, []byte("green"), []byte("black"), 1), nil)
		}, []string{"does not have", `"color"`}},
		{"an index entry that is none", func(b *bolt.Bucket) error {
			return color(b).Put([]byte("x"), nil)
		}, []string{"malformed", `"color"`}},
		{"an index that is gone", func(b *bolt.Bucket) error {
			return b.Bucket(indexes).DeleteBucket([]byte("color"))
		}, []string{`index "color" has no bucket`}},
		{"an index that nobody knows", func(b *bolt.Bucket) error {
			_, err := b.Bucket(indexes).CreateBucket([]byte("size"))
			return err
		}, []string{`"size"`}},
		{"an info record that is damaged", func(b *bolt.Bucket) error {
			data := bytes.Clone(b.Get(disk.Info))
			data[len(data)-3] ^= 4
			return b.Put(disk.Info, data)
		}, []string{"info", "checksum"}},
		{"an info record that is gone", func(b *bolt.Bucket) error {
			return b.Delete(disk.Info)
		}, []string{"no info record"}},
		{"objects that are gone", func(b *bolt.Bucket) error {
			return b.DeleteBucket(objects)
		}, []string{"no objects bucket"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, c := checked(t)
			if err := tamperWith(c, test.tamper); err != nil {
				t.Fatal(err)
			}
			r, err := store.CheckContent(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(r.Problems, func(p string) bool {
				return strings.Contains(p, storetest.Pods.ID()) &&
					!slices.ContainsFunc(test.want, func(w string) bool { return !strings.Contains(p, w) })
			})
			if !found {
				t.Errorf("problems %q; want one with %q", r.Problems[:min(len(r.Problems), 5)], test.want)
			}
		})
	}
}

func TestCheckBoundsItsReport(t *testing.T) {
	s, c := checked(t)
	err := tamperWith(c, func(b *bolt.Bucket) error {
		cur := b.Bucket(disk.Objects).Cursor()
		for k, v := cur.First(); k != nil; k, v = cur.Next() {
			v = bytes.Clone(v)
			v[len(v)-1] ^= 1
			if err := b.Bucket(disk.Objects).Put(k, v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.CheckContent(context.Background(), s)
	if err != nil || len(r.Problems) != 1001 || !strings.Contains(r.Problems[1000], "more") {
		t.Errorf("%d problems, %v", len(r.Problems), err)
	}
}

// TestReadsReportDamage checks that reads of a damaged record fail, and that a write or a list replaces it.
func TestReadsReportDamage(t *testing.T) {
	s, c := checked(t)
	ctx := context.Background()
	err := tamperWith(c, func(b *bolt.Bucket) error {
		key := []byte("ns1/pod0001")
		data := bytes.Clone(b.Bucket(disk.Objects).Get(key))
		data[len(data)-3] ^= 4
		return b.Bucket(disk.Objects).Put(key, data)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, get := c.Get(ctx, "ns1/pod0001")
	_, list := c.List(ctx)
	_, index := c.ByIndex(ctx, "color", "green")
	_, apply := c.Apply(ctx, entry.Batch{Ops: []entry.Op{upsert("ns1/pod0001", "9999")}})
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	_, page := r.Page(ctx, podsOf(upsert("ns1/pod0001", "9999")))
	for what, err := range map[string]error{"Get": get, "List": list, "ByIndex": index} {
		if !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), "ns1/pod0001") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if apply != nil || page != nil || s.Err() != nil {
		t.Errorf("Apply: %v, Page: %v, Err: %v", apply, page, s.Err())
	}
	if obj, err := c.Get(ctx, "ns0/pod0000"); err != nil || obj == nil {
		t.Errorf("what is not damaged: %v, %v", obj, err)
	}
}
