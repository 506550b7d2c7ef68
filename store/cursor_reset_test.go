package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

func positionInFile(t *testing.T, c *store.Collection, name string) (position consumer.Position, found bool) {
	t.Helper()
	infos, err := c.Cursors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range infos {
		if h.Name == name {
			return h.Position, true
		}
	}
	return consumer.Position{}, false
}

// inOrder queues first and then second for the writer lock; after release they run in that order. A commit among them
// writes only changes that were in the memtable when it was queued.
func inOrder(t *testing.T, s *store.Store, first, second func() error) (release func() (first, second error)) {
	t.Helper()
	free, err := store.TakeWriter(s)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]chan error, 2)
	for i, fn := range []func() error{first, second} {
		errs[i] = make(chan error, 1)
		go func() { errs[i] <- fn() }()
		synctest.Wait()
	}
	return func() (error, error) {
		free()
		return <-errs[0], <-errs[1]
	}
}

// TestForgottenHandlerStaysForgotten checks a commit that was queued behind ForgetCursor: the commit must not write the
// position of the forgotten durable handler.
func TestForgottenHandlerStaysForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, few := filled(t, store.Options{CommitInterval: time.Hour})
		mustOpenCursor(t, few, "other")
		f := mustOpenCursor(t, few, "h")
		f.Close()
		forget := func() error { return few.ForgetCursor(context.Background(), "h") }
		flush := func() error { return s.Flush(context.Background()) }
		if err := errors.Join(inOrder(t, s, forget, flush)()); err != nil {
			t.Fatal(err)
		}
		if position, found := positionInFile(t, few, "h"); found {
			t.Errorf("it is in the file again, at %+v", position)
		}
		wantSound(t, s)
		mustClose(t, s)
	})
}

// TestCommitOverADamagedRecord checks that a commit that replaces a damaged record resets the durable handlers, in the
// file and in memory, and leaves no index entry of the old record.
func TestCommitOverADamagedRecord(t *testing.T) {
	s, _, few := filled(t, store.Options{CommitInterval: time.Hour})
	flush(t, s)
	f := mustOpenCursor(t, few, "h")
	for _, delete := range []bool{false, true} {
		key, i := "namespace-1/pod-0001", 1
		op := entry.Op{Object: somePod(i)}
		if delete {
			key, i = "namespace-2/pod-0002", 2
			op = entry.Op{Type: entry.Delete, Object: somePod(i)}
		}
		damageRecord(t, few, key)
		if info := infoOf(t, few); info.MustRelist != store.MustRelistDamaged || s.Err() != nil {
			t.Errorf("MustRelist is %q, Err: %v", info.MustRelist, s.Err())
		}
		if _, err := few.Apply(t.Context(), entry.Batch{Ops: []entry.Op{op}, ResourceVersion: "8000"}); err != nil {
			t.Fatal(err)
		}
		flush(t, s)
		if info := infoOf(t, few); info.MustRelist != "" {
			t.Errorf("MustRelist is %q after the write", info.MustRelist)
		}
		stored, _ := positionInFile(t, few, "h")
		position, resets, err := f.Position()
		if err != nil || !position.Replaying || !stored.Replaying || stored.Why != consumer.ResetDamage {
			t.Errorf("the handler is at %+v, and in the file at %+v, %v", position, stored, err)
		}
		position.Replaying = false
		if err := f.Acknowledge(position, resets); err != nil {
			t.Fatal(err)
		}
		wantSound(t, s)
	}
	if n, info := count(t, few); n != 199 || info.Objects != 199 {
		t.Errorf("%d objects, %+v", n, info)
	}
}

// TestMemoryKnowsAResetBeforeTheNextWrite checks a commit that drops tombstones that a durable handler has not read.
// The commit must reset the handler's position in memory before the next write, which stores it: with a stale position
// the handler would miss the dropped deletes.
func TestMemoryKnowsAResetBeforeTheNextWrite(t *testing.T) {
	for name, interval := range map[string]time.Duration{"a commit of the dirty changes": time.Hour,
		"a write that does not wait": -1} {
		t.Run(name, func(t *testing.T) {
			s, _, few := filled(t, store.Options{CommitInterval: interval})
			store.SetTombstoneLimit(few, 1)
			f := mustOpenCursor(t, few, "h")
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			resets := 0
			store.OnRelease(s, func() {
				stored, found := positionInFile(t, few, "h")
				position, _, err := f.Position()
				if !found || !stored.Replaying {
					return
				}
				if resets++; err != nil || !position.Replaying {
					t.Errorf("the file has %+v, and the next write would make it %+v, %v", stored, position, err)
				}
			})
			b := entry.Batch{ResourceVersion: "7000"}
			for i := range 3 {
				b.Ops = append(b.Ops, entry.Op{Type: entry.Delete, Object: somePod(i)})
			}
			if _, err := few.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			store.OnRelease(s, nil)
			if resets == 0 {
				t.Fatal("nothing was set back")
			}
			wantSound(t, s)
		})
	}
}

// TestHandlerThatIsNotForgottenLosesNothing checks that a failed ForgetCursor loses no unread changes.
func TestHandlerThatIsNotForgottenLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, few := filled(t, store.Options{CommitInterval: time.Hour})
		g := store.GateCommits(s)
		f := mustOpenCursor(t, few, "h")
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDelete(t, few, 7)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The new cursor gives the queued commit something to write.
		mustOpenCursor(t, few, "other")
		f.Close()
		first := true
		g.Fail(func() error {
			if !first {
				return nil
			}
			first = false
			return syscall.ENOSPC
		})
		forget := func() error { return few.ForgetCursor(context.Background(), "h") }
		flush := func() error { return s.Flush(context.Background()) }
		forgotten, flushed := inOrder(t, s, forget, flush)()
		if !errors.Is(forgotten, store.ErrNoSpace) || flushed != nil {
			t.Fatal(forgotten, flushed)
		}
		f, err := few.OpenCursor(t.Context(), "h")
		if err != nil {
			t.Fatal(err)
		}
		if position, _, _ := f.Position(); position.Replaying {
			t.Fatalf("it begins anew: %+v", position)
		}
		if got, want := unreadKeys(t, f), []string{"-namespace-2/pod-0007"}; !slices.Equal(got, want) {
			t.Errorf("it has not acknowledged %q, want %q", got, want)
		}
		mustClose(t, s)
	})
}

// TestResetOfAnUnknownOutcome checks that a durable handler starts over after a commit of unknown outcome, which may
// have dropped tombstones that the handler had not read.
func TestResetOfAnUnknownOutcome(t *testing.T) {
	s, _, few := filled(t, store.Options{})
	store.SetTombstoneLimit(few, 1)
	f := mustOpenCursor(t, few, "h")
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mustDelete(t, few, i)
	}
	failAfterCommits(s, func() error { return errors.New("the sync failed") })
	err := s.Flush(t.Context())
	failAfterCommits(s, nil)
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	mustCopyAgain(t, s)
	if position, _, err := f.Position(); err != nil || !position.Replaying || position.Why != consumer.ResetBehind {
		t.Errorf("the tombstones are gone, and it goes on at %+v, %v", position, err)
	}
	wantSound(t, s)
}

// TestReplayLeavesTheNextObject checks a commit that took effect although its fsync failed, and is repeated: its delete
// must not remove the next object under the same key.
func TestReplayLeavesTheNextObject(t *testing.T) {
	s, _, few := filled(t, store.Options{})
	f := mustOpenCursor(t, few, "h")
	const key = "a/x"
	next := func(uid, rv string) entry.Op { return entry.Op{Object: storetest.Pod(key, uid, rv)} }
	gone := func(uid, rv string) entry.Op {
		return entry.Op{Type: entry.Delete, Object: storetest.Pod(key, uid, rv)}
	}
	apply(t, few, "5000", next("first", "5000"))
	flush(t, s)
	catchUp(t, f)
	apply(t, few, "5004", gone("first", "5001"), next("second", "5002"), gone("second", "5003"), next("third", "5004"))
	failAfterCommits(s, func() error { return errors.New("the sync failed") })
	err := s.Flush(t.Context())
	failAfterCommits(s, nil)
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	apply(t, few, "5005", next("third", "5005"))
	mustCopyAgain(t, s)
	for _, change := range catchUp(t, f) {
		if strings.HasPrefix(change, "- ") && strings.Contains(change, "third") {
			t.Errorf("a live object is reported as deleted: %s", change)
		}
	}
	wantSound(t, s)
}

// TestOneDamagedPosition checks that only the durable handler with the damaged position starts over.
func TestOneDamagedPosition(t *testing.T) {
	s, _, few := filled(t, store.AtOnce(store.Options{}))
	for _, name := range []string{"a", "b", "c"} {
		mustOpenCursor(t, few, name).Close()
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := few.Close(); err != nil {
		t.Fatal(err)
	}
	err := tamperWith(few, func(b *bolt.Bucket) error {
		v := slices.Clone(b.Bucket(disk.Cursors).Get([]byte("b")))
		v[len(v)-1] ^= 1
		return b.Bucket(disk.Cursors).Put([]byte("b"), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	s = salvage(t, s, store.AtOnce(store.Options{}))
	few = mustCollection(t, s, otherPods())
	for name, want := range map[string]bool{"a": false, "b": true, "c": false} {
		f, err := few.OpenCursor(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		position, _, err := f.Position()
		if err != nil || position.Replaying != want || want && position.Why != consumer.ResetDamage {
			t.Errorf("%s is at %+v, %v", name, position, err)
		}
	}
	wantSound(t, s)
	mustClose(t, s)
}

// TestOpenRepairsTheChangelog checks that a collection does not continue an incomplete changelog: a program that does
// not know changelogs may have written in between.
func TestOpenRepairsTheChangelog(t *testing.T) {
	open := func(tamper func(b *bolt.Bucket) error) (*store.Store, *store.Collection) {
		s, _, few := filled(t, store.AtOnce(store.Options{}))
		mustOpenCursor(t, few, "h").Close()
		mustDelete(t, few, 7)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := few.Close(); err != nil {
			t.Fatal(err)
		}
		if err := tamperWith(few, tamper); err != nil {
			t.Fatal(err)
		}
		few = mustCollection(t, s, otherPods())
		wantSound(t, s)
		mustDelete(t, few, 8)
		return s, few
	}
	t.Run("no handler", func(t *testing.T) {
		s, few := open(func(b *bolt.Bucket) error { return b.Bucket(disk.Cursors).Delete([]byte("h")) })
		if n := tombstones(few); n != 0 {
			t.Errorf("%d tombstones are kept that no handler needs", n)
		}
		wantSound(t, s)
	})
	t.Run("another program", func(t *testing.T) {
		s, few := open(func(b *bolt.Bucket) error {
			return disk.EditInfo(b, otherPods().ID(), func(info map[string]any) {
				delete(info, "feedSince")
				delete(info, "tombstones")
			})
		})
		f, err := few.OpenCursor(t.Context(), "h")
		if err != nil {
			t.Fatal(err)
		}
		if position, _, err := f.Position(); err != nil || !position.Replaying || position.Why != consumer.ResetDamage {
			t.Errorf("what that has changed would be missed: %+v, %v", position, err)
		}
		wantSound(t, s)
	})
}

// TestOpenRepairsTheRetainedChangelog checks that after a write by a program that does not know changelogs, the
// retained changes still show which objects were created.
func TestOpenRepairsTheRetainedChangelog(t *testing.T) {
	s, _, few := filled(t, store.AtOnce(store.Options{}))
	if err := few.RetainChanges(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := few.Close(); err != nil {
		t.Fatal(err)
	}
	err := editInfo(few, func(info map[string]any) { delete(info, "feedSince") })
	if err != nil {
		t.Fatal(err)
	}
	few = mustCollection(t, s, otherPods())
	k, err := few.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := few.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: somePod(99999)}},
		ResourceVersion: "5001"}); err != nil {
		t.Fatal(err)
	}
	v, err := s.ViewWith(t.Context(), otherPods(), mustCodec(t, &corev1.Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Changes(t.Context(), k.Last)
	if err != nil || len(p.Changes) != 1 || p.Changes[0].Created != p.Changes[0].Seq {
		t.Errorf("%+v, %v", p, err)
	}
	wantSound(t, s)
}

// TestChangelogWithoutABucket checks that a missing changelog bucket is reported as damage, without a panic, and that a
// repair resets durable handlers only if tombstones or positions were lost.
func TestChangelogWithoutABucket(t *testing.T) {
	for _, bucket := range [][]byte{disk.Seq, disk.Tombstones, disk.Cursors} {
		s, _, few := filled(t, store.AtOnce(store.Options{}))
		f := mustOpenCursor(t, few, "h")
		mustDelete(t, few, 7)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		position, _, err := f.Position()
		if err != nil {
			t.Fatal(err)
		}
		if err := tamperWith(few, func(b *bolt.Bucket) error { return b.DeleteBucket(bucket) }); err != nil {
			t.Fatal(err)
		}
		if string(bucket) != string(disk.Cursors) {
			if p, _, err := f.Read(t.Context(), consumer.Position{Seq: position.Seq}); !errors.Is(err, entry.ErrDamaged) {
				t.Errorf("without %s: read %+v, %v", bucket, p, err)
			}
			if p, err := f.Next(t.Context(), "namespace-2/pod-0007", position.Seq+1,
				position.Seq+1); !errors.Is(err, entry.ErrDamaged) {
				t.Errorf("without %s: what fails is %+v, %v", bucket, p, err)
			}
		}
		_, err = few.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Type: entry.Delete, Object: somePod(8)}},
			ResourceVersion: "5001"})
		if !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("without %s: a write: %v", bucket, err)
		}
		_ = s.Close()
		s = mustOpen(t, s.Path(), store.AtOnce(store.Options{}))
		few = mustCollection(t, s, otherPods())
		if f, err = few.OpenCursor(t.Context(), "h"); err != nil {
			t.Fatal(err)
		}
		mustDelete(t, few, 8)
		position, _, err = f.Position()
		if err != nil || position.Replaying != (string(bucket) != string(disk.Seq)) {
			t.Errorf("without %s: after the repair it is at %+v, %v", bucket, position, err)
		}
		wantSound(t, s)
	}
}
