package informer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// TestLossesInAnotherRebuild checks that the informer's next event causes one list if a rebuild by another informer on
// the file has lost objects.
func TestLossesInAnotherRebuild(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/0", "x")
		i := r.open()
		losses := 3 // losses from before the run are already repaired
		informer.SetLosses(i, func() int { return losses })
		r.run(&recorder{})
		synctest.Wait()
		losses++
		r.srv.write("a/0", "y")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.srv.write("a/0", "z")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s := i.Status().Reflector
		if s.Relists[reflector.ReasonDamaged] != 1 || len(s.Relists) != 1 {
			t.Errorf("relists: %v, want one for %s", s.Relists, reflector.ReasonDamaged)
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestListLost checks that a list is aborted and repeated if a rebuild by another informer has lost a part of it.
func TestListLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 4 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i), skip: 1}
		informer.SetStore(i, f)
		f.set(fmt.Errorf("page: %w", store.ErrReplaceLost), 1)
		h := &recorder{}
		r.run(h)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if !i.HasSynced() {
			t.Error("not synced")
		}
		if n := i.Status().Reflector.Relists[reflector.ReasonDamaged]; n != 1 || f.failed() != 1 {
			t.Errorf("%d relists after %d failures", n, f.failed())
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// failingFile stands for a store file that can fail and be rebuilt.
type failingFile struct {
	mu     sync.Mutex
	err    error
	failed chan struct{} // failed is closed when the file fails
}

func (f *failingFile) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failingFile) Failed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *failingFile) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	close(f.failed)
}

func (f *failingFile) rebuild(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.failed = nil, make(chan struct{})
	return nil
}

// TestReadersFindDamage checks, twice in a run, that damage that a reader finds is repaired although nothing is
// written.
func TestReadersFindDamage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/0", "x")
		i := r.open()
		f := &failingFile{failed: make(chan struct{})}
		informer.SetFailure(i, f)
		rebuilds := 0
		informer.SetRebuild(i, func(ctx context.Context) error {
			rebuilds++
			return f.rebuild(ctx)
		})
		r.run(&recorder{})
		synctest.Wait()
		for range 2 {
			f.fail(fmt.Errorf("page: %w", entry.ErrDamaged))
			synctest.Wait()
		}
		if rebuilds != 2 || f.Err() != nil {
			t.Errorf("%d rebuilds, then %v", rebuilds, f.Err())
		}
		if err := i.Status().Err; err != nil {
			t.Errorf("status still says %v", err)
		}
		r.close()
	})
}
