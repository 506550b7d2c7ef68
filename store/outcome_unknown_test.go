package store_test

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

func diskError() error { return syscall.EIO }

func wantSame(t *testing.T, c *store.Collection, when, rv string) {
	t.Helper()
	info, err := c.Info(t.Context())
	obj, err2 := c.Get(t.Context(), "namespace-0/pod-0000")
	if err != nil || err2 != nil || info.ResourceVersion != rv || rvOf(obj) != rv {
		t.Errorf("%s: Info at %s, an object at %s, want %s; %v, %v", when, info.ResourceVersion, rvOf(obj), rv, err, err2)
	}
}

// TestServedAfterAnUnknownOutcome checks that a collection serves all its changes after a commit of unknown outcome,
// and that Info and objects have the same resourceVersion, before and after the copy.
func TestServedAfterAnUnknownOutcome(t *testing.T) {
	list := func(t *testing.T, c *store.Collection, rv string) error {
		r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err != nil {
			return err
		}
		defer r.Abort()
		if _, err := r.Page(t.Context(), []runtime.Object{podAt(0, rv)}); err != nil {
			return err
		}
		if _, err = r.Commit(t.Context(), entry.Batch{ResourceVersion: rv}); err != nil {
			t.Fatal(err)
		}
		return store.StoreOf(c).Flush(t.Context())
	}
	batch := func(t *testing.T, c *store.Collection, rv string) error { return applyPod(t, c, podAt(0, rv)) }
	for name, test := range map[string]struct {
		interval time.Duration
		write    func(t *testing.T, c *store.Collection, rv string) error
	}{
		"List": {time.Hour, list}, "Batch": {-1, batch},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, t.TempDir()+"/store", store.Every(store.Options{}, test.interval))
			g := store.GateCommits(s)
			c := openAs(t, s, store.All)
			if err := list(t, c, "1"); err != nil {
				t.Fatal(err)
			}
			g.After(diskError)
			for _, rv := range []string{"2", "3"} { // the second write copies the file, and its commit fails too
				if err := test.write(t, c, rv); !errors.Is(err, store.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				wantSame(t, c, "after the write of "+rv, rv)
			}
			g.After(nil)
			mustCopyAgain(t, s)
			wantSame(t, c, "copied", "3")
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

// TestInfoAdvancesWhileTheStoreHasFailed checks that Info shows each batch although the store cannot write it.
func TestInfoAdvancesWhileTheStoreHasFailed(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", store.Options{CommitInterval: time.Hour})
	c := openAs(t, s, store.All)
	mustList(t, c, 1)
	failCommits(s, diskError)
	if err := c.SetMustRelist(t.Context(), "asked to"); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if err := applyPod(t, c, podAt(0, "2000")); err != nil {
		t.Fatal(err)
	}
	wantSame(t, c, "after a batch", "2000")
	failCommits(s, nil)
	mustCopyAgain(t, s)
	wantSame(t, c, "copied", "2000")
	mustClose(t, s)
}

// TestLoadingDuringAnUnknownOutcome checks that objects loaded into memory while a write is in progress are not served
// if the outcome of that write is unknown.
func TestLoadingDuringAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir()+"/store", store.AtOnce(store.Options{}))
		g := store.GateCommits(s)
		c := openAs(t, s, store.All)
		mustList(t, c, 1)
		mustEnd(t, c)
		c, read := openSlowly(t, s)
		g.After(diskError)
		entered, release := g.Hold()
		written := make(chan error, 1)
		go func() { written <- applyPod(t, c, podAt(0, "2000")) }()
		<-entered
		read()
		synctest.Wait()
		release()
		if err := <-written; !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		synctest.Wait()
		wantSame(t, c, "after the write", "2000")
		g.After(nil)
		mustCopyAgain(t, s)
		wantInMemory(t, c, "namespace-0/pod-0000")
		wantSame(t, c, "copied", "2000")
		mustClose(t, s)
	})
}

// TestSetMustRelistDoesNotBlock checks that while SetMustRelist waits for the writer lock, Info advances with each
// batch, and objects can be read from memory.
func TestSetMustRelistDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir()+"/store", store.Options{CommitInterval: time.Hour})
		c := openAs(t, s, store.All)
		mustList(t, c, 2)
		release, err := store.TakeWriter(s)
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
		wantInMemory(t, c, "namespace-1/pod-0001")
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

// wantInMemory checks that two reads of an object decode the object only once.
func wantInMemory(t *testing.T, c *store.Collection, key string) {
	t.Helper()
	if err := c.WaitResident(t.Context()); err != nil {
		t.Error(err)
	}
	first, err := c.Get(t.Context(), key)
	second, err2 := c.Get(t.Context(), key)
	if err != nil || err2 != nil || first == nil || first != second {
		t.Errorf("%s is read from the file: %v, %v", key, err, err2)
	}
}

// heldCodec is a codec whose first call of Decode waits.
type heldCodec struct {
	codec.Codec
	first *atomic.Bool
	wait  <-chan struct{}
}

func (c heldCodec) Decode(data []byte) (runtime.Object, error) {
	if c.first.CompareAndSwap(false, true) {
		<-c.wait
	}
	return c.Codec.Decode(data)
}

// openSlowly opens the collection of pods, whose objects are loaded into memory when read is called.
func openSlowly(t *testing.T, s *store.Store) (c *store.Collection, read func()) {
	t.Helper()
	wait := make(chan struct{})
	c, err := s.Collection(t.Context(), pods(), store.CollectionOptions{
		Residency: store.All, Codec: heldCodec{mustCodec(t, &corev1.Pod{}), &atomic.Bool{}, wait},
	})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return c, func() { close(wait) }
}
