package store

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	bolt "go.etcd.io/bbolt"
)

// placeInFile returns the place that the file has of a handler.
func placeInFile(t *testing.T, c *Collection, name string) (place Place, found bool) {
	t.Helper()
	infos, err := c.Handlers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range infos {
		if h.Name == name {
			return h.Place, true
		}
	}
	return Place{}, false
}

func mustCommit(t *testing.T, s *Store, snaps map[*Collection]*snapshot) {
	t.Helper()
	place, err := s.takeWriter(t.Context(), committing)
	if err != nil {
		t.Fatal(err)
	}
	err = s.commit(snaps)
	_ = s.noteCommit(snaps, err)
	place()
	if err != nil {
		t.Fatal(err)
	}
}

// A commit that has begun must not bring back a handler that is forgotten before it is written.
func TestForgottenHandlerStaysForgotten(t *testing.T) {
	s, _, few := filled(t, Options{})
	mustFeed(t, few, "other")
	f := mustFeed(t, few, "h") // its place is noted, and not in the file
	snaps := s.snapshots()
	f.Close()
	if err := few.ForgetHandler(t.Context(), "h"); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, snaps)
	if place, found := placeInFile(t, few, "h"); found {
		t.Errorf("it is in the file again, at %+v", place)
	}
	wantSound(t, s)
}

// Nor may it write the place that a handler had before it was set back.
func TestCommitKeepsAReset(t *testing.T) {
	s, _, few := filled(t, Options{})
	mustFeed(t, few, "h")
	snaps := s.snapshots()
	if err := few.beginAnew(t.Context()); err != nil { // as a rebuild does while commits wait
		t.Fatal(err)
	}
	mustCommit(t, s, snaps)
	if place, _ := placeInFile(t, few, "h"); !place.Replaying || place.Why != ResetDamage {
		t.Errorf("a crash now would have it go on at %+v", place)
	}
}

// TestMemoryKnowsAResetBeforeTheNextWrite: whoever writes next writes the places that memory has. If those were of before a commit that has dropped what a handler had not passed, the file would have it
// go on as if nothing were missing.
func TestMemoryKnowsAResetBeforeTheNextWrite(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, s *Store, c *Collection){
		"a commit of what is pending": func(t *testing.T, s *Store, _ *Collection) {
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"a write that does not wait": func(t *testing.T, _ *Store, c *Collection) {
			c.mu.Lock()
			defer c.mu.Unlock()
			err := c.writeLocked(t.Context(), nil, func(w *writer) error {
				for _, key := range []string{"namespace-0/pod-0000", "namespace-1/pod-0001", "namespace-2/pod-0002"} {
					old, err := w.get(key)
					if err == nil {
						err = w.remove(key, old, nil)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, few := filled(t, Options{})
			few.limits.tombstones = 1
			f := mustFeed(t, few, "h")
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, "a commit") {
				for i := range 3 {
					mustDelete(t, few, i)
				}
			}
			resets := 0
			s.hooks.release = func() {
				stored, found := placeInFile(t, few, "h")
				place, _, err := f.Place()
				if !found || !stored.Replaying {
					return
				}
				if resets++; err != nil || !place.Replaying {
					t.Errorf("the file has %+v, and the next write would make it %+v, %v", stored, place, err)
				}
			}
			write(t, s, few)
			s.hooks.release = nil
			if resets == 0 {
				t.Fatal("nothing was set back")
			}
			wantSound(t, s)
		})
	}
}

// A handler that could not be forgotten has lost nothing meanwhile.
func TestHandlerThatIsNotForgottenLosesNothing(t *testing.T) {
	s, _, few := filled(t, Options{})
	f := mustFeed(t, few, "h")
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustDelete(t, few, 7)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustFeed(t, few, "other") // something to commit
	f.Close()
	var snaps map[*Collection]*snapshot
	s.hooks.commit = func(tx *bolt.Tx) error { // while the handler is being forgotten, which fails
		snaps = s.snapshots()
		return errors.Join(syscall.ENOSPC, tx.Rollback())
	}
	err := few.ForgetHandler(t.Context(), "h")
	s.hooks.commit = nil
	if !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	mustCommit(t, s, snaps)
	f, err = few.Feed(t.Context(), "h")
	if err != nil {
		t.Fatal(err)
	}
	if place, _, _ := f.Place(); place.Replaying {
		t.Fatalf("it begins anew: %+v", place)
	}
	if got, want := unread(t, f), []string{"-namespace-2/pod-0007"}; !slices.Equal(got, want) {
		t.Errorf("it has not acknowledged %q, want %q", got, want)
	}
}

// A commit whose outcome is unknown may have dropped tombstones: who had not passed them begins anew.
func TestResetOfAnUnknownOutcome(t *testing.T) {
	s, _, few := filled(t, Options{})
	few.limits.tombstones = 1
	f := mustFeed(t, few, "h")
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mustDelete(t, few, i)
	}
	FailAfterCommits(s, func() error { return errors.New("the sync failed") })
	err := s.Flush(t.Context())
	s.hooks.commit = nil
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if place, _, err := f.Place(); err != nil || !place.Replaying || place.Why != ResetBehind {
		t.Errorf("the tombstones are gone, and it goes on at %+v, %v", place, err)
	}
	wantSound(t, s)
}

// A file whose collection was lost altogether gives numbers from 1 on, whatever Info says meanwhile.
func TestBeginAnewInAnEmptyFile(t *testing.T) {
	s, _, few := filled(t, Options{CommitInterval: -1})
	f := mustFeed(t, few, "h")
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := few.id
	info, err := few.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = Tamper(few, func(b *bolt.Bucket) error {
		data := slices.Clone(b.Get(keyInfo))
		data[len(data)-5] ^= 1
		return b.Put(keyInfo, data)
	})
	if err != nil {
		t.Fatal(err)
	}
	few.frozen.Store(&info) // as while a write waits for the rebuild
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	few.frozen.Store(nil)
	if now, err := few.Info(t.Context()); err != nil || now.NextSeq != 1 || few.id != before {
		t.Fatalf("%+v, %v", now, err)
	}
	if place, _, err := f.Place(); err != nil || place.Seq != 0 || !place.Replaying {
		t.Errorf("it would miss everything up to its place, %+v, %v", place, err)
	}
}

// Of a file in which one place is damaged that handler begins anew, and knows why; the others go on.
func TestOneDamagedPlace(t *testing.T) {
	for _, open := range []bool{true, false} {
		s, _, few := filled(t, Options{CommitInterval: -1})
		for _, name := range []string{"a", "b", "c"} {
			mustFeed(t, few, name).Close()
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := few.Close(); err != nil {
			t.Fatal(err)
		}
		err := Tamper(few, func(b *bolt.Bucket) error {
			v := slices.Clone(b.Bucket(bucketHandlers).Get([]byte("b")))
			v[len(v)-1] ^= 1
			return b.Bucket(bucketHandlers).Put([]byte("b"), v)
		})
		if err != nil {
			t.Fatal(err)
		}
		if open { // it can be read, and whoever opens it has the store rebuilt
			few = mustCollection(t, s, otherPods())
		}
		if err := s.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !open {
			few = mustCollection(t, s, otherPods())
		}
		for name, want := range map[string]bool{"a": false, "b": true, "c": false} {
			f, err := few.Feed(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if place, _, err := f.Place(); err != nil || place.Replaying != want || want && place.Why != ResetDamage {
				t.Errorf("open %t: %s is at %+v, %v", open, name, place, err)
			}
		}
		wantSound(t, s)
		mustClose(t, s)
	}
}

// A feed that is not whole, or that nobody reads, is not gone on with: a program that knew nothing of feeds may have written meanwhile.
func TestOpenMendsTheFeed(t *testing.T) {
	open := func(tamper func(b *bolt.Bucket) error) (*Store, *Collection) {
		s, _, few := filled(t, Options{CommitInterval: -1})
		mustFeed(t, few, "h").Close()
		mustDelete(t, few, 7)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := few.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Tamper(few, tamper); err != nil {
			t.Fatal(err)
		}
		few = mustCollection(t, s, otherPods())
		wantSound(t, s)
		mustDelete(t, few, 8)
		return s, few
	}
	t.Run("no handler", func(t *testing.T) {
		s, few := open(func(b *bolt.Bucket) error { return b.Bucket(bucketHandlers).Delete([]byte("h")) })
		if n := Tombstones(few); n != 0 {
			t.Errorf("%d tombstones are kept, for nobody", n)
		}
		wantSound(t, s)
	})
	t.Run("another program", func(t *testing.T) {
		s, few := open(func(b *bolt.Bucket) error {
			st, err := getState(b, otherPods().ID())
			if err != nil {
				return err
			}
			st.feedSince, st.tombstones = 0, 0
			return putState(b, otherPods().ID(), st)
		})
		f, err := few.Feed(t.Context(), "h")
		if err != nil {
			t.Fatal(err)
		}
		if place, _, err := f.Place(); err != nil || !place.Replaying || place.Why != ResetDamage {
			t.Errorf("what that has changed would be missed: %+v, %v", place, err)
		}
		wantSound(t, s)
	})
}

// Changes that are kept for readers tell what was created, also after a program that knew nothing of feeds has written meanwhile.
func TestOpenMendsTheFeedOfReaders(t *testing.T) {
	s, _, few := filled(t, Options{CommitInterval: -1})
	if err := few.RetainChanges(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := few.Close(); err != nil {
		t.Fatal(err)
	}
	err := Tamper(few, func(b *bolt.Bucket) error {
		st, err := getState(b, otherPods().ID())
		if err != nil {
			return err
		}
		st.feedSince = 0
		return putState(b, otherPods().ID(), st)
	})
	if err != nil {
		t.Fatal(err)
	}
	few = mustCollection(t, s, otherPods())
	k, err := few.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := few.Apply(t.Context(), Batch{Ops: []Op{{Object: somePod(99999)}}, ResourceVersion: "5001"}); err != nil {
		t.Fatal(err)
	}
	v, err := s.ViewWith(t.Context(), otherPods(), few.codec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Changes(t.Context(), k.Last)
	if err != nil || len(p.Changes) != 1 || p.Changes[0].Created != p.Changes[0].Seq {
		t.Errorf("%+v, %v", p, err)
	}
	wantSound(t, s)
}

// A feed of which a bucket is missing is damaged: nothing panics, and nobody goes on as if nothing had changed.
func TestFeedWithoutABucket(t *testing.T) {
	for _, bucket := range [][]byte{bucketSeq, bucketTombstones, bucketHandlers} {
		s, _, few := filled(t, Options{CommitInterval: -1})
		f := mustFeed(t, few, "h")
		mustDelete(t, few, 7)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		place, _, err := f.Place()
		if err != nil {
			t.Fatal(err)
		}
		if err := Tamper(few, func(b *bolt.Bucket) error { return b.DeleteBucket(bucket) }); err != nil {
			t.Fatal(err)
		}
		if string(bucket) != string(bucketHandlers) {
			if p, err := f.Read(t.Context(), place.Seq); !errors.Is(err, entry.ErrDamaged) {
				t.Errorf("without %s: read %+v, %v", bucket, p, err)
			}
			if p, err := f.Failing(t.Context(), map[string]uint64{"namespace-2/pod-0007": place.Seq + 1}, place.Seq+1); !errors.Is(err, entry.ErrDamaged) {
				t.Errorf("without %s: what fails is %+v, %v", bucket, p, err)
			}
		}
		_, err = few.Apply(t.Context(), Batch{Ops: []Op{{Type: Delete, Object: somePod(8)}}, ResourceVersion: "5001"})
		if !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("without %s: a write: %v", bucket, err)
		}
		if err := s.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDelete(t, few, 8)
		place, _, err = f.Place()
		if err != nil || place.Replaying != (string(bucket) == string(bucketTombstones)) {
			t.Errorf("without %s: after the rebuild it is at %+v, %v", bucket, place, err)
		}
		wantSound(t, s)
	}
}
