package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// TestRewriteAborted checks that if the last commit of a list that replaces all stored objects fails, the next list
// replaces all objects too.
func TestRewriteAborted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.o.TransformVersion = "1"
		r.start()
		r.close()

		r.o.TransformVersion = "2"
		i := r.open()
		err := i.SetTransform(func(obj any) (any, error) {
			p := obj.(*corev1.Pod).DeepCopy()
			p.Labels["value"] = "second"
			return p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		losses := 0
		informer.SetLosses(i, func() int { return losses })
		f := &faultyStore{Interface: informer.Store(i), skip: 2}
		f.set(store.ErrReplaceLost, 1)
		informer.SetStore(i, f)
		r.run()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), []string{"a/1@101=second"})
		if s := i.Status(); f.failed() != 1 || s.Rewriting != "" || !s.Synced {
			t.Errorf("%d failures, status %+v", f.failed(), s)
		}
		losses++
		r.srv.write("a/1", "y")
		synctest.Wait()
		if n := i.Status().Reflector.Relists[reflector.ReasonDamaged]; n != 1 {
			t.Errorf("%d relists for a later loss", n)
		}
		r.close()
	})
}

// TestListLostOnce checks that a list that another informer's rebuild has lost is repeated once, although both the
// error ErrReplaceLost and the count of losses report it.
func TestListLostOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		var f *faultyStore
		informer.SetLosses(i, func() int { return f.failed() })
		f = &faultyStore{Interface: informer.Store(i), skip: 2}
		f.set(store.ErrReplaceLost, 1)
		informer.SetStore(i, f)
		h := &recorder{}
		r.run(h)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := i.Status().Reflector.Relists[reflector.ReasonDamaged]; n != 1 || !i.HasSynced() {
			t.Errorf("%d relists, synced %v", n, i.HasSynced())
		}
		r.close()
	})
}

func TestRebuildFailsDuringAList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i), skip: 1}
		f.set(entry.ErrDamaged, 1)
		informer.SetStore(i, f)
		informer.SetRebuild(i, func(context.Context) error { return errors.New("from the test") })
		r.run()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if !i.HasSynced() {
			t.Error("not synced")
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// damaged makes the informer's next write fail, and the rebuild that follows lose the given keys.
func damaged(i *informer.Informer, then func(), keys ...string) *faultyStore {
	f := &faultyStore{Interface: informer.Store(i)}
	f.set(entry.ErrDamaged, 1)
	informer.SetStore(i, f)
	informer.SetRebuild(i, func(ctx context.Context) error {
		for _, key := range keys {
			op := entry.Op{Type: entry.Delete, Object: cache.DeletedFinalStateUnknown{Key: key}}
			if _, err := f.Interface.Apply(ctx, entry.Batch{Ops: []entry.Op{op}}); err != nil {
				return err
			}
		}
		then()
		return f.SetMustRelist(ctx, store.MustRelistDamaged)
	})
	return f
}

// failLists fails list requests, but not the probes that ask for one object.
func failLists(verb string, o metav1.ListOptions) error {
	if verb == "list" && o.Limit != 1 {
		return errors.New("connection refused")
	}
	return nil
}

// TestSyncWaitsForLostObjects checks that HasSynced waits for a list if a repair before the first sync has lost an
// object, because the watch does not restore the object.
func TestSyncWaitsForLostObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		r.start()
		r.close()
		r.srv.write("a/1", "y")
		r.srv.setFail(failLists)
		i := r.open()
		damaged(i, func() {}, "a/2")
		r.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		if i.HasSynced() {
			t.Errorf("synced with %q, the server has %q", r.stored(), r.srv.state())
		}
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		if !i.HasSynced() {
			t.Error("not synced")
		}
		r.close()
	})
}

// TestLostThenDeleted checks that OnDelete is called once for an object that a repair has lost, whether or not the
// DELETED event arrives before the list.
func TestLostThenDeleted(t *testing.T) {
	for name, how := range map[string]func(s *server, remove func()){
		"the watch sends an event": func(_ *server, remove func()) { remove() },
		"the watch sends no event": func(s *server, remove func()) { s.swallow(remove) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				h := &recorder{}
				i := r.open()
				f := damaged(i, func() {
					how(r.srv, func() { r.srv.delete("a/2") })
					synctest.Wait()
				}, "a/2")
				f.skip = 3
				r.run(h)
				h.take()
				r.srv.write("a/1", "y")
				time.Sleep(time.Minute)
				synctest.Wait()
				got := h.take()
				deletes := slices.DeleteFunc(slices.Clone(got),
					func(l string) bool { return l != "gone a/2" && l != "delete a/2@104=x" })
				if len(deletes) != 1 {
					t.Errorf("%d deletes of a/2: %q", len(deletes), got)
				}
				equal(t, "store", r.stored(), r.srv.state())
				r.close()
			})
		})
	}
}

func TestRebuildInVain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, f)
		rebuilds := 0
		informer.SetRebuild(i, func(context.Context) error {
			if rebuilds++; rebuilds > 200 {
				return errors.New("enough")
			}
			return nil
		})
		r.run()
		f.set(entry.ErrDamaged, -1)
		r.srv.write("a/1", "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		if rebuilds < 5 || rebuilds > 40 {
			t.Errorf("%d rebuilds in a minute", rebuilds)
		}
		f.set(nil, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

type brokenCommits struct {
	store.Interface
	failures int
}

func (s *brokenCommits) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	r, err := s.Interface.BeginReplace(ctx, o)
	return &brokenCommit{r, s}, err
}

type brokenCommit struct {
	store.Replacement
	s *brokenCommits
}

func (r *brokenCommit) Commit(ctx context.Context, b entry.Batch) (entry.Result, error) {
	if r.s.failures++; r.s.failures > 200 {
		return r.Replacement.Commit(ctx, b)
	}
	return entry.Result{}, entry.ErrDamaged
}

func TestListsInVain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		informer.SetStore(i, &brokenCommits{Interface: informer.Store(i)})
		informer.SetRebuild(i, func(context.Context) error { return nil })
		r.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		if lists, _ := r.srv.requests(); lists < 4 || lists > 40 {
			t.Errorf("%d lists in a minute", lists)
		}
		r.close()
	})
}

// sometimesCodec is a codec that cannot decode while its field broken is set.
type sometimesCodec struct {
	codec.Codec
	broken *atomic.Bool
}

func (c sometimesCodec) Decode(data []byte) (runtime.Object, error) {
	if c.broken.Load() {
		return nil, fmt.Errorf("from the test: %w", entry.ErrDamaged)
	}
	return c.Codec.Decode(data)
}

// TestReadErrorRepairedByAnotherInformer checks that damage disappears from the status of the informer whose reader
// found it, after another informer on the file has repaired it.
func TestReadErrorRepairedByAnotherInformer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		codec, err := codec.For(&corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		broken := &atomic.Bool{}
		r := newRig(t)
		r.o.Codec, r.o.Residency = sometimesCodec{codec, broken}, store.None
		r.srv.write("a/1", "x")
		i := r.open()
		file := &failingFile{failed: make(chan struct{})}
		informer.SetFailure(i, file)
		r.run()
		broken.Store(true)
		read := i.GetStore().List()
		broken.Store(false)
		if len(read) != 0 {
			t.Error("the reader has met nothing")
		}
		file.mu.Lock() // the file fails, and is repaired before the process loop reads the failure
		close(file.failed)
		file.failed = make(chan struct{})
		file.mu.Unlock()
		synctest.Wait()
		if err := i.Status().Err; err != nil {
			t.Errorf("status still says %v", err)
		}
		r.close()
	})
}

// TestNoWatchErrorHandler checks that SetWatchErrorHandler(nil) selects the default handler, as in client-go.
func TestNoWatchErrorHandler(t *testing.T) {
	quietHandlers(t)
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		if err := i.SetWatchErrorHandlerWithContext(nil); err != nil {
			t.Fatal(err)
		}
		r.run()
		r.srv.setFail(refuse)
		r.srv.disconnect()
		time.Sleep(time.Minute)
		if s := i.Status(); s.Source == informer.Live {
			t.Errorf("%+v", s.Reflector)
		}
		r.close()
	})
}
