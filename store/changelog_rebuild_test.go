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

// TestRebuildAndTheChangelog checks that durable handlers keep their positions in a rebuild, except in collections that
// have lost objects: there they start over.
func TestRebuildAndTheChangelog(t *testing.T) {
	s, many, few := filled(t, store.AtOnce(store.Options{}))
	lost, kept := mustOpenCursor(t, many, "lost"), mustOpenCursor(t, few, "kept")
	// The position of this handler stays in the file, because the reopened store does not register the handler.
	other := mustOpenCursor(t, few, "not registered")
	mustDelete(t, few, 7)
	mustDelete(t, many, 8)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Close()
	damageRecord(t, many, "namespace-0/pod-0000")
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at, resets, err := lost.Position(); err != nil || !at.Replaying || at.Why != consumer.ResetDamage ||
		resets != 1 {
		t.Errorf("the handler of the collection that lost an object is at %+v, %d resets, %v", at, resets, err)
	}
	if at, resets, err := kept.Position(); err != nil || at.Replaying || resets != 0 {
		t.Errorf("the other one is at %+v, %d resets, %v", at, resets, err)
	}
	want := []string{"-namespace-2/pod-0007"}
	if got := unreadKeys(t, kept); !slices.Equal(got, want) {
		t.Errorf("it has not acknowledged %q, want %q", got, want)
	}
	again, err := few.OpenCursor(t.Context(), "not registered")
	if err != nil {
		t.Fatal(err)
	}
	if got := unreadKeys(t, again); !slices.Equal(got, want) {
		t.Errorf("one that was not registered has not acknowledged %q, want %q", got, want)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSound(t, s)
}

// TestRebuildAndTheChangelogOfAClosedCollection checks that a rebuild handles durable handlers of closed collections
// too, whose positions are only in the file.
func TestRebuildAndTheChangelogOfAClosedCollection(t *testing.T) {
	s, many, few := filled(t, store.AtOnce(store.Options{}))
	for _, c := range []*store.Collection{many, few} {
		mustOpenCursor(t, c, "h").Close()
		mustEnd(t, c)
	}
	tamper(t, s, flip("namespace-0/pod-0000"))
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, lost := range map[entry.Identity]bool{pods(): true, otherPods(): false} {
		f, err := mustCollection(t, s, id).OpenCursor(t.Context(), "h")
		if err != nil {
			t.Fatal(err)
		}
		if at, _, err := f.Position(); err != nil || at.Replaying != lost || lost && at.Why != consumer.ResetDamage {
			t.Errorf("the handler of %s is at %+v, %v; lost: %t", id, at, err, lost)
		}
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
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantSound(t, s)
		})
	}
}
