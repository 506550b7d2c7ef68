package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

func colors(b *bolt.Bucket) *bolt.Bucket { return b.Bucket(disk.Index).Bucket([]byte("color")) }

// flip returns a function that damages the payload of the record of key.
func flip(key string) func(b *bolt.Bucket) error {
	return func(b *bolt.Bucket) error {
		data := bytes.Clone(b.Bucket(disk.Objects).Get([]byte(key)))
		data[len(data)-3] ^= 4
		return b.Bucket(disk.Objects).Put([]byte(key), data)
	}
}

// punch returns a function that deletes records without updating indexes or Info.
func punch(keys ...string) func(b *bolt.Bucket) error {
	return func(b *bolt.Bucket) error {
		for _, key := range keys {
			if err := b.Bucket(disk.Objects).Delete([]byte(key)); err != nil {
				return err
			}
		}
		return nil
	}
}

func filledPods(t *testing.T, residency store.Residency) (*store.Store, *store.Collection) {
	t.Helper()
	s, err := store.Open(t.TempDir()+"/larder.db", store.AtOnce(store.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := openPodsAs(t, s, byNamespaceAndColor, residency)
	fill(t, c, 1100)
	if err := c.WaitResident(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s, c
}

func wantWorking(t *testing.T, s *store.Store) {
	t.Helper()
	r, err := s.Check(context.Background())
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("Check: %v, %q", err, r.Problems[:min(len(r.Problems), 5)])
	}
	if err := s.Err(); err != nil {
		t.Errorf("the store still fails: %v", err)
	}
}

// TestSalvageOfDamagedRecords damages single records and index entries in each way. Open must keep all good records of
// the damaged file, and a collection that has lost records must be listed again.
func TestSalvageOfDamagedRecords(t *testing.T) {
	key := "ns1/pod0001"
	for name, test := range map[string]struct {
		tamper func(b *bolt.Bucket) error
		lost   int
		relist bool
	}{
		"a flipped bit in a body": {flip(key), 1, true},
		"a hole":                  {punch("ns0/pod0003", key), 2, true},
		"a record under another key": {func(b *bolt.Bucket) error {
			return b.Bucket(disk.Objects).Put([]byte("ns1/other"), b.Bucket(disk.Objects).Get([]byte(key)))
		}, 0, true},
		"an index entry that is gone": {func(b *bolt.Bucket) error {
			k, _ := colors(b).Cursor().First()
			return colors(b).Delete(k)
		}, 0, false},
		"an index entry of a value that the object does not have": {func(b *bolt.Bucket) error {
			k, _ := colors(b).Cursor().First()
			return colors(b).Put(bytes.Replace(k, []byte("green"), []byte("black"), 1), nil)
		}, 0, false},
		"an index entry that is none": {func(b *bolt.Bucket) error {
			return colors(b).Put([]byte("x"), nil)
		}, 0, false},
	} {
		for _, residency := range []store.Residency{store.All, store.None} {
			t.Run(name+", "+residency.String(), func(t *testing.T) {
				ctx := context.Background()
				s, c := filledPods(t, residency)
				if err := tamperWith(c, test.tamper); err != nil {
					t.Fatal(err)
				}
				if err := s.Scrub(ctx); !errors.Is(err, entry.ErrDamaged) {
					t.Fatalf("Scrub: %v", err)
				}
				s = salvage(t, s, store.AtOnce(store.Options{}))
				c = openPodsAs(t, s, byNamespaceAndColor, residency)
				wantWorking(t, s)
				info, err := c.Info(ctx)
				if err != nil || test.relist != (info.MustRelist == store.MustRelistDamaged) {
					t.Errorf("info %+v, %v", info, err)
				}
				if after, err := c.List(ctx); err != nil || len(after) != 1100-test.lost {
					t.Errorf("%d objects are left, %v", len(after), err)
				}
			})
		}
	}
}

func equalKeys(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestRefs checks that Refs returns the headers of the stored records with uncommitted changes applied.
func TestRefs(t *testing.T) {
	ctx := context.Background()
	_, c := filledPods(t, store.All)
	if err := tamperWith(c, punch("ns1/pod0001")); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for after := ""; ; {
		refs, err := c.Refs(ctx, after, 300)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range refs {
			keys = append(keys, ref.Key)
			if (ref.ResourceVersion == "") != (ref.Key == "ns1/pod0001") {
				t.Errorf("%+v", ref)
			}
		}
		if len(refs) < 300 {
			break
		}
		after = refs[len(refs)-1].Key
	}
	want, err := c.Keys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	equalKeys(t, "keys", keys, want)
}
