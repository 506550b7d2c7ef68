package store_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestMendUnderAPendingDelete: of an object whose record is lost while its delete is pending the commit finds nothing, so it can leave no tombstone. The handlers have to be
// told all the same that it is gone.
func TestMendUnderAPendingDelete(t *testing.T) {
	for name, residency := range map[string]store.Residency{"all": store.All, "none": store.None} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, err := store.Open(t.TempDir()+"/larder.db", store.Options{CommitInterval: 1 << 40})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c := openPodsAs(t, s, byNamespaceAndColor, residency)
			apply(t, c, "3", upsert("a/x", "1"), upsert("a/y", "2"), upsert("a/z", "3"))
			f := feedOf(t, c, "h")
			flush(t, s)
			catchUp(t, f)
			flush(t, s)
			apply(t, c, "4", remove("a/y", "4"))
			if err := store.Tamper(c, flip("a/y")); err != nil {
				t.Fatal(err)
			}
			if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
				t.Fatalf("Scrub: %v", err)
			}
			if _, err := s.Mend(ctx); err != nil {
				t.Fatal(err)
			}
			flush(t, s)
			place, _, err := f.Place()
			if err != nil {
				t.Fatal(err)
			}
			if got := catchUp(t, f); !place.Replaying && !slices.Contains(got, "- a/y uid=uid-a/y rv=4") {
				t.Errorf("the handler is at %+v and is told %q: it never hears that a/y is gone", place, got)
			}
			wantSound(t, s)
		})
	}
}

// TestMendThatIsRepeated: what an attempt has lost before it failed is told by the next one.
func TestMendThatIsRepeated(t *testing.T) {
	ctx := context.Background()
	gate := &hook.Gate{}
	s := storetest.Open(t, store.Options{CommitInterval: -1, Hooks: &hook.Hooks{Commit: gate.Commit}})
	a, b := openPodsIn(t, s, "a"), openPodsIn(t, s, "b")
	feeds := map[*store.Collection]*store.Feed{}
	for _, c := range []*store.Collection{a, b} {
		ns := c.Identity().Namespace
		apply(t, c, "2", upsert(ns+"/x", "1"), upsert(ns+"/y", "2"))
		feeds[c] = feedOf(t, c, "h")
		catchUp(t, feeds[c])
		flush(t, s)
		if err := store.Tamper(c, punch(ns+"/y")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("Scrub: %v", err)
	}
	first := gate.Attempts()
	gate.Fail(func() error {
		if gate.Attempts() > first+1 {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := s.Mend(ctx); !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("on a disk that is full after the first collection: %v", err)
	}
	gate.Fail(nil)
	if _, err := s.Mend(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*store.Collection{a, b} {
		ns := c.Identity().Namespace
		if n := c.Losses(); n == 0 {
			t.Errorf("%s does not say that it has lost something", ns)
		}
		keys, unknown := c.TakeLost()
		if !slices.Equal(keys, []string{ns + "/y"}) && unknown == 0 {
			t.Errorf("%s has lost %q and %d others", ns, keys, unknown)
		}
		if place, _, err := feeds[c].Place(); err != nil || !place.Replaying {
			t.Errorf("the handler of %s is at %+v, %v", ns, place, err)
		}
	}
	wantSound(t, s)
}

// TestMendOfADocument: a document that is damaged is taken out, as a rebuild does, or each check of the file would find it again.
func TestMendOfADocument(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, store.Options{CommitInterval: -1})
	for _, name := range []string{"bad", "good"} {
		if err := s.PutDocument(ctx, name, []byte("the contents of "+name)); err != nil {
			t.Fatal(err)
		}
	}
	err := store.TamperFile(s, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("documents"))
		data := slices.Clone(b.Get([]byte("bad")))
		data[len(data)-1] ^= 1
		return b.Put([]byte("bad"), data)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(ctx); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("Scrub: %v", err)
	}
	if _, err := s.Mend(ctx); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Document(ctx, "bad"); err != nil || data != nil {
		t.Errorf("the damaged one is %q, %v", data, err)
	}
	if data, err := s.Document(ctx, "good"); err != nil || string(data) != "the contents of good" {
		t.Errorf("the other one is %q, %v", data, err)
	}
	wantSound(t, s)
}
