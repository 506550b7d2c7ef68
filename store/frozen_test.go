package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

func diskError() error { return syscall.EIO }

// wantSame verifies that the object says the same as Info.
func wantSame(t *testing.T, c *Collection, when, rv string) {
	t.Helper()
	info, err := c.Info(t.Context())
	obj, err2 := c.Get(t.Context(), "namespace-0/pod-0000")
	if err != nil || err2 != nil || info.ResourceVersion != rv || rvOf(obj) != rv {
		t.Errorf("%s: Info at %s, an object at %s, want %s; %v, %v", when, info.ResourceVersion, rvOf(obj), rv, err, err2)
	}
}

// After a write that readers of the file may see or not, Info says what the objects in memory do, until the file is rebuilt.
func TestInfoAfterAnUnknownOutcome(t *testing.T) {
	list := func(t *testing.T, c *Collection, rv string) error {
		r, err := c.BeginReplace(t.Context(), ReplaceOptions{})
		if err != nil {
			return err
		}
		defer r.Abort()
		if _, err := r.Page(t.Context(), []runtime.Object{podAt(0, rv)}); err != nil {
			return err
		}
		_, err = r.Commit(t.Context(), Batch{ResourceVersion: rv})
		return err
	}
	batch := func(t *testing.T, c *Collection, rv string) error { return applyPod(t, c, podAt(0, rv)) }
	for name, test := range map[string]struct {
		interval time.Duration
		write    func(t *testing.T, c *Collection, rv string) error
	}{
		"List": {time.Hour, list}, "ListAtOnce": {-1, list}, "Batch": {-1, batch},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, t.TempDir()+"/store", Options{CommitInterval: test.interval})
			g := GateCommits(s)
			c := openAs(t, s, All)
			if err := list(t, c, "1"); err != nil {
				t.Fatal(err)
			}
			g.After(diskError)
			if err := test.write(t, c, "2"); !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatal(err)
			}
			wantSame(t, c, "after the write", "1")
			if err := test.write(t, c, "3"); !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatal(err)
			}
			wantSame(t, c, "after another, which was not begun", "1")
			g.After(nil)
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantSame(t, c, "rebuilt", "2")
			if err := test.write(t, c, "4"); err != nil {
				t.Fatal(err)
			}
			if err := c.WaitResident(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantSame(t, c, "written again", "4")
			mustClose(t, s)
		})
	}
}

// A write that was not begun, because the store had failed before, holds up Info for nobody.
func TestInfoGoesOnWhileTheStoreHasFailed(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", Options{CommitInterval: time.Hour})
	c := openAs(t, s, All)
	mustList(t, c, 1)
	s.failNow(fmt.Errorf("%w: from the test", ErrOutcomeUnknown))
	if _, err := c.BeginReplace(t.Context(), ReplaceOptions{}); err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	} else if err == nil {
		c.replacing.Abort()
	}
	if err := c.write(t.Context(), nil, func(*writer) ([]*write, error) { return nil, nil }); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if err := applyPod(t, c, podAt(0, "2000")); err != nil {
		t.Fatal(err)
	}
	wantSame(t, c, "after a batch", "2000")
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSame(t, c, "rebuilt", "2000")
	mustClose(t, s)
}

// Objects that were being read while a write of unknown outcome was made are not used.
func TestFillingDuringAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir()+"/store", Options{CommitInterval: -1})
		g := GateCommits(s)
		c := openAs(t, s, All)
		mustList(t, c, 1)
		g.After(diskError)
		entered, release := g.Hold()
		written := make(chan error, 1)
		go func() { written <- applyPod(t, c, podAt(0, "2000")) }()
		<-entered
		c.startFilling()
		<-c.resident.Load().read // the old state
		release()
		if err := <-written; !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		<-c.resident.Load().ended
		wantSame(t, c, "after the write", "2000")
		g.After(nil)
		if err := s.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitResident(t.Context()); err != nil || c.inMemory() == nil {
			t.Errorf("%v; in memory %v", err, c.inMemory() != nil)
		}
		wantSame(t, c, "rebuilt", "2000")
		mustClose(t, s)
	})
}

// SetMustRelist writes no object: while it waits for its turn Info goes on, and what is in memory is read there.
func TestSetMustRelistHoldsUpNothing(t *testing.T) {
	for _, r := range []Residency{All, Bounded(64 << 20)} {
		synctest.Test(t, func(t *testing.T) {
			s := mustOpen(t, t.TempDir()+"/store", Options{CommitInterval: time.Hour})
			c := openAs(t, s, r)
			mustList(t, c, 1)
			release, err := s.takeWriter(t.Context(), "the test")
			if err != nil {
				t.Fatal(err)
			}
			marked := make(chan error, 1)
			go func() { marked <- c.SetMustRelist(t.Context(), "asked to") }()
			synctest.Wait()
			if err := applyPod(t, c, podAt(0, "2000")); err != nil {
				t.Fatal(err)
			}
			wantSame(t, c, "while it waits", "2000")
			if c.bounded != nil && c.bounded.closed.Load() != 0 {
				t.Error("nothing is read from memory")
			}
			release()
			if err := <-marked; err != nil {
				t.Error(err)
			}
			if info, err := c.Info(t.Context()); err != nil || info.MustRelist != "asked to" {
				t.Errorf("%+v, %v", info, err)
			}
			mustClose(t, s)
		})
	}
}
