package store_test

import (
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// mustOpenCursor registers a durable handler that has acknowledged all committed changes.
func mustOpenCursor(t *testing.T, c *store.Collection, name string) *store.Cursor {
	t.Helper()
	if err := store.StoreOf(c).Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := c.OpenCursor(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	at, resets, err := f.Position()
	if err != nil {
		t.Fatal(err)
	}
	at.Replaying = false
	if err := f.Acknowledge(at, resets); err != nil {
		t.Fatal(err)
	}
	return f
}

func mustDelete(t *testing.T, c *store.Collection, i int) {
	t.Helper()
	if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Type: entry.Delete, Object: somePod(i)}},
		ResourceVersion: "5000"}); err != nil {
		t.Fatal(err)
	}
}

// unreadKeys returns the unacknowledged changes of a durable handler: "+key" for a write, "-key" for a delete.
func unreadKeys(t *testing.T, f *store.Cursor) (keys []string) {
	t.Helper()
	at, _, err := f.Position()
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := f.Read(t.Context(), consumer.Position{Seq: at.Seq})
	if err != nil || p.More {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, c := range p.Changes {
		verb := "+"
		if c.Type == entry.Delete {
			verb = "-"
		}
		keys = append(keys, verb+c.Key)
	}
	return keys
}

// TestSalvageAndTheChangelog checks that durable handlers keep their positions when a damaged file is opened, except in
// collections that have lost objects: there they start over.
func TestSalvageAndTheChangelog(t *testing.T) {
	s, many, few := filled(t, store.AtOnce(store.Options{}))
	mustOpenCursor(t, many, "lost")
	mustOpenCursor(t, few, "kept")
	mustDelete(t, few, 7)
	mustDelete(t, many, 8)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	damageRecord(t, many, "namespace-0/pod-0000")
	s = salvage(t, s, store.AtOnce(store.Options{}))
	lost, err := mustCollection(t, s, pods()).OpenCursor(t.Context(), "lost")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := mustCollection(t, s, otherPods()).OpenCursor(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if at, _, err := lost.Position(); err != nil || !at.Replaying || at.Why != consumer.ResetDamage {
		t.Errorf("the handler of the collection that lost an object is at %+v, %v", at, err)
	}
	if at, _, err := kept.Position(); err != nil || at.Replaying {
		t.Errorf("the other one is at %+v, %v", at, err)
	}
	want := []string{"-namespace-2/pod-0007"}
	if got := unreadKeys(t, kept); !slices.Equal(got, want) {
		t.Errorf("it has not acknowledged %q, want %q", got, want)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSound(t, s)
}

func TestCheckOfTheChangelog(t *testing.T) {
	for name, damage := range map[string]func(b *bolt.Bucket) error{
		"a number without an object": func(b *bolt.Bucket) error {
			return b.Bucket(disk.Seq).Put(disk.SeqKey(5),
				[]byte("no/such"))
		},
		"a record without a number": func(b *bolt.Bucket) error {
			k, _ := b.Bucket(disk.Seq).Cursor().Last()
			return b.Bucket(disk.Seq).Delete(slices.Clone(k))
		},
		"a tombstone under another number": func(b *bolt.Bucket) error {
			k, v := b.Bucket(disk.Tombstones).Cursor().First()
			v = slices.Clone(v)
			if err := b.Bucket(disk.Tombstones).Delete(slices.Clone(k)); err != nil {
				return err
			}
			return b.Bucket(disk.Tombstones).Put(disk.SeqKey(3), v)
		},
		"a tombstone of other bytes": func(b *bolt.Bucket) error {
			k, v := b.Bucket(disk.Tombstones).Cursor().First()
			v = slices.Clone(v)
			v[disk.TombstoneFixed+3] ^= 1
			return b.Bucket(disk.Tombstones).Put(slices.Clone(k), v)
		},
		"a tombstone too many": func(b *bolt.Bucket) error {
			_, v := b.Bucket(disk.Tombstones).Cursor().First()
			return b.Bucket(disk.Tombstones).Put(disk.SeqKey(1), slices.Clone(v))
		},
		"a cursor of other bytes": func(b *bolt.Bucket) error {
			k, v := b.Bucket(disk.Cursors).Cursor().First()
			v = slices.Clone(v)
			v[len(v)-1] ^= 1
			return b.Bucket(disk.Cursors).Put(slices.Clone(k), v)
		},
		"no bucket of tombstones": func(b *bolt.Bucket) error { return b.DeleteBucket(disk.Tombstones) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _, few := filled(t, store.AtOnce(store.Options{}))
			mustOpenCursor(t, few, "h")
			if _, err := few.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: somePod(1)}},
				ResourceVersion: "4999"}); err != nil {
				t.Fatal(err)
			}
			mustDelete(t, few, 7)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := tamperWith(few, damage); err != nil {
				t.Fatal(err)
			}
			report, err := s.Check(t.Context())
			if err != nil || len(report.Problems) == 0 {
				t.Fatalf("check: %v, %q", err, report.Problems)
			}
			s = salvage(t, s, store.AtOnce(store.Options{}))
			mustCollection(t, s, otherPods())
			flush(t, s)
			wantSound(t, s)
		})
	}
}
