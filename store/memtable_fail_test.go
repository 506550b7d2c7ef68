package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestCommitIsRetried checks that commits are retried at growing intervals, and that changes stay readable.
func TestCommitIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{Logger: &quiet})
		g := store.GateCommits(s)
		c := openPods(t, s, byNamespaceAndColor)
		g.Fail(full)
		start, progress := time.Now(), s.Committed()
		apply(t, c, "1", upsert("a/x", "1", storetest.ColorLabel, "red"))
		before := g.Attempts()
		want := time.Second
		for i, wait := range []time.Duration{0, 400, 800, 1600, 3200, 6400, 10000, 10000} {
			want += wait * time.Millisecond
			<-progress
			progress = s.Committed()
			if got := time.Since(start); got != want || g.Attempts() != before+i+1 {
				t.Fatalf("attempt %d (%d) came after %v, want %v", i+1, g.Attempts()-before, got, want)
			}
			if err := s.CommitErr(); !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("CommitErr: %v", err)
			}
			rv := fmt.Sprint(i + 2)
			apply(t, c, rv, upsert("a/x", rv, storetest.ColorLabel, "blue"))
			wantObjects(t, c, rv, "a/x uid=uid-a/x rv="+rv+" color=blue")
		}
		if s.Err() != nil {
			t.Errorf("Err: %v", s.Err())
		}
		g.Fail(nil)
		<-progress
		if s.CommitErr() != nil || s.Pending() != 0 || infoOf(t, c).NextSeq != 2 {
			t.Errorf("after the commit: %v, %d bytes pending, %+v", s.CommitErr(), s.Pending(), infoOf(t, c))
		}
		// After a success, the retry intervals start with the shortest.
		g.Fail(full)
		apply(t, c, "20", upsert("a/x", "20"))
		for range 2 {
			<-s.Committed()
		}
		failed := time.Now()
		<-s.Committed()
		if d := time.Since(failed); d > time.Second {
			t.Errorf("the third attempt came after %v", d)
		}
		g.Fail(nil)
		<-s.Committed()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestCommitsComeInTime checks that a commit runs a second after the first change, or at CommitBytes.
func TestCommitsComeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{Logger: &quiet, CommitBytes: 6000})
		g := store.GateCommits(s)
		c := openPods(t, s, nil)
		before := g.Attempts()
		apply(t, c, "1", upsert("a/x", "1"))
		time.Sleep(900 * time.Millisecond)
		apply(t, c, "2", upsert("a/x", "2"))
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		if n := g.Attempts() - before; n != 0 {
			t.Errorf("%d commits in the first 999 ms", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := g.Attempts() - before; n != 1 || s.Pending() != 0 {
			t.Errorf("%d commits in the first second, %d bytes pending", n, s.Pending())
		}
		progress := s.Committed()
		apply(t, c, "3", upsert("a/"+strings.Repeat("y", 1000), "3"))
		start := time.Now()
		apply(t, c, "4", upsert("a/"+strings.Repeat("z", 1000), "4"))
		<-progress
		if d := time.Since(start); d != 0 {
			t.Errorf("what was full was committed after %v", d)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestOneCommitAfterAFullOne checks that changes that are applied during a commit are committed after their own
// CommitInterval, even if that commit started because CommitBytes was reached.
func TestOneCommitAfterAFullOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{Logger: &quiet, CommitInterval: time.Minute, CommitBytes: 1000})
		g := store.GateCommits(s)
		c := openPods(t, s, nil)
		before := g.Attempts()
		entered, release := g.Hold()
		apply(t, c, "1", upsert("a/"+strings.Repeat("x", 1000), "1"))
		<-entered
		apply(t, c, "2", upsert("a/y", "2"))
		progress := s.Committed()
		release()
		<-progress
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := g.Attempts() - before; n != 1 {
			t.Errorf("%d commits, want one and another after a minute", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := g.Attempts() - before; n != 2 {
			t.Errorf("%d commits after Close", n)
		}
	})
}

func TestCloseDuringBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{Logger: &quiet})
		if err != nil {
			t.Fatal(err)
		}
		g := store.GateCommits(s)
		c := openPods(t, s, nil)
		g.Fail(full)
		apply(t, c, "1", upsert("a/x", "1"))
		time.Sleep(20 * time.Second)
		start := time.Now()
		if err := s.Close(); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Close took %v", d)
		}
	})
}

// TestUnknownOutcomeKeepsUncommittedChanges checks that the changes of a commit of unknown outcome are kept, whether
// readers of the file see that commit or not.
func TestUnknownOutcomeKeepsUncommittedChanges(t *testing.T) {
	eio := func() error { return syscall.EIO }
	for name, fail := range map[string]func(g *hook.Gate, fail func() error){
		"Seen":    (*hook.Gate).After,
		"NotSeen": (*hook.Gate).Fail,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			path := filepath.Join(t.TempDir(), "larder.db")
			s := storetest.OpenFile(t, path, byHand())
			g := store.GateCommits(s)
			c := openPods(t, s, byNamespaceAndColor)
			relist(t, c, store.ReplaceOptions{}, "2", upsert("a/x", "1", storetest.ColorLabel, "red"), upsert("a/y", "2"))
			fail(g, eio)
			apply(t, c, "4", upsert("a/x", "3", storetest.ColorLabel, "blue"), remove("a/y", "4"))
			if err := s.Flush(ctx); !errors.Is(err, store.ErrOutcomeUnknown) {
				t.Fatalf("Flush: %v", err)
			}
			fail(g, nil)
			apply(t, c, "5", upsert("a/z", "5"))
			want := []string{"a/x uid=uid-a/x rv=3 color=blue", "a/z uid=uid-a/z rv=5"}
			wantObjects(t, c, "5", want...)
			if !errors.Is(s.CommitErr(), store.ErrOutcomeUnknown) || s.Err() != nil {
				t.Fatalf("before the copy: %v, Err %v", s.CommitErr(), s.Err())
			}
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			wantObjects(t, c, "5", want...)
			if s.Pending() != 0 || s.CommitErr() != nil {
				t.Errorf("%d bytes pending, %v", s.Pending(), s.CommitErr())
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = storetest.OpenFile(t, path, byHand())
			wantObjects(t, openPods(t, s, byNamespaceAndColor), "5", want...)
		})
	}
}

// TestBackOffEndsWithSuccess checks that any successful commit ends the backoff between commit retries.
func TestBackOffEndsWithSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{Logger: &quiet})
		g := store.GateCommits(s)
		c := openPods(t, s, nil)
		g.Fail(full)
		apply(t, c, "1", upsert("a/x", "1"))
		time.Sleep(time.Minute)
		<-s.Committed() // after several failures the next attempt is 10 s away
		g.Fail(nil)
		flush(t, s)
		apply(t, c, "2", upsert("a/x", "2"))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.Pending(); n != 0 {
			t.Errorf("%d bytes are pending after a second", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFullBeforeCommitBytes checks that a commit begins at the backpressure limit even if it is
// lower than Options.CommitBytes.
func TestFullBeforeCommitBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, byHand())
		store.SetDirtyLimit(s, 1000)
		c := openPods(t, s, nil)
		start := time.Now()
		for i := range 5 {
			apply(t, c, fmt.Sprint(i+1), upsert("a/"+strings.Repeat("x", 900+i), fmt.Sprint(i+1)))
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("five batches took %v", d)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
