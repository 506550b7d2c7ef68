package informer

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// What tests of this package reach of its inside, all of it. Each line says what needs it; whoever builds the inside
// anew has to provide the same.

// Store returns what i keeps its objects in: tests look what has reached it, and write what another program would.
func Store(i *Informer) store.Interface { return i.shared.store }

// SetStore has i, which does not run yet, keep its objects in s: a store that refuses a write, loses its outcome, is
// slow or finds damage, at the call that a test wants.
func SetStore(i *Informer, s store.Interface) { i.shared.store, i.shared.distribution.store = s, s }

// SetRebuild has i call fn to have the file of such a store written anew.
func SetRebuild(i *Informer, fn func(ctx context.Context) error) {
	i.shared.file = rebuilt{i.shared.file, fn}
}

type rebuilt struct {
	file
	fn func(ctx context.Context) error
}

func (r rebuilt) Rebuild(ctx context.Context) error { return r.fn(ctx) }

// SetLosses has i ask fn how often that has lost something.
func SetLosses(i *Informer, fn func() int) { i.shared.collection = lossy{i.shared.collection, fn} }

type lossy struct {
	collection
	fn func() int
}

func (l lossy) Losses() int { return l.fn() }

// SetFailure has i watch f for the failure of such a store.
func SetFailure(i *Informer, f interface {
	Err() error
	Failed() <-chan struct{}
}) {
	i.shared.file = failing{i.shared.file, f}
}

type failing struct {
	file
	of interface {
		Err() error
		Failed() <-chan struct{}
	}
}

func (f failing) Err() error              { return f.of.Err() }
func (f failing) Failed() <-chan struct{} { return f.of.Failed() }

// SetListerWatcher has i, which does not run yet, list and watch with lw: one that comes after a restart.
func SetListerWatcher(i *Informer, lw cache.ListerWatcher) {
	i.shared.lw = lw
	i.shared.source, i.shared.undecoded = i.shared.listed()
}

// OptionsOf returns those that i has: another one is made with them.
func OptionsOf(i *Informer) Options { return i.o }

// SetPages has what is stored read for handlers in pages of so many objects: a replay of several, of few objects.
func SetPages(i *Informer, objects int) { i.shared.distribution.limit = objects }

// Lock is one that a goroutine may find taken.
type Lock interface {
	TryLock() bool
	Unlock()
}

// Locks are those of i, by name: no callback runs under one.
func Locks(i *Informer) map[string]Lock {
	return map[string]Lock{"mu": &i.mu, "shared.mu": &i.shared.mu, "deltasMu": i.shared.distribution.deltasMu,
		"processor.mu": i.processor.Lock()}
}

// Deltas is the lock under which i takes in what has arrived: who holds it has it wait.
func Deltas(i *Informer) patient.Mutex { return i.shared.distribution.deltasMu }

// Relist has i list anew, as for a reason of the reflector's.
func Relist(i *Informer, reason reflector.Reason) { i.shared.currentReflector().Relist(reason) }

// StatusOf returns that of one registration: those of handlers of one type share their name in Status.
func StatusOf(reg cache.ResourceEventHandlerRegistration) (status HandlerStatus, ours bool) {
	l, ours := reg.(*delivery.Listener)
	if ours {
		status = HandlerStatus(l.Status())
	}
	return status, ours
}

// Forget drops a handler as if it had never registered, until it is restored: a fault that the differential test has to
// find.
func Forget(i *Informer, reg cache.ResourceEventHandlerRegistration) (restore func()) {
	return i.processor.Hide(reg.(*delivery.Listener))
}

// WrapCursors has durable handlers of i, which has none yet, read from what wrap makes of their cursors: faults that
// the model of durable handlers has to find, and costs that can be counted there alone.
func WrapCursors(i *Informer, wrap func(durable.Cursor) durable.Cursor) {
	o := i.shared.durableOptions()
	o.Wrap = wrap
	i.durable = durable.New(o)
}
