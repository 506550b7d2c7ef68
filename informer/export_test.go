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

// This file has all internals that the package's tests use. Each comment says why. A rewrite of the package has to
// provide the same.

// Store returns the store of i, so that tests can read and modify it.
func Store(i *Informer) store.Interface { return i.shared.store }

// SetStore replaces the store of i before its run, by a store that fails, is slow or finds damage in certain calls.
func SetStore(i *Informer, s store.Interface) { i.shared.store, i.shared.distribution.store = s, s }

// SetRebuild replaces the rebuild of the file of i.
func SetRebuild(i *Informer, fn func(ctx context.Context) error) {
	i.shared.file = rebuilt{i.shared.file, fn}
}

type rebuilt struct {
	file
	fn func(ctx context.Context) error
}

func (r rebuilt) Rebuild(ctx context.Context) error { return r.fn(ctx) }

// SetLosses replaces the collection's count of rebuilds that lost objects.
func SetLosses(i *Informer, fn func() int) { i.shared.collection = lossy{i.shared.collection, fn} }

type lossy struct {
	collection
	fn func() int
}

func (l lossy) Losses() int { return l.fn() }

// SetFailure replaces the file's failure status by f.
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

// SetListerWatcher replaces the ListerWatcher of i before its run.
func SetListerWatcher(i *Informer, lw cache.ListerWatcher) {
	i.shared.lw = lw
	i.shared.source, i.shared.undecoded = i.shared.listed()
}

// OptionsOf returns the options of i, for another informer.
func OptionsOf(i *Informer) Options { return i.o }

// SetPages sets the page size of backlogs, so that few objects make several pages.
func SetPages(i *Informer, objects int) { i.shared.distribution.limit = objects }

// Lock is a mutex that can be tried.
type Lock interface {
	TryLock() bool
	Unlock()
}

// Locks returns the mutexes of i by name. No callback runs under one of them.
func Locks(i *Informer) map[string]Lock {
	return map[string]Lock{"mu": &i.mu, "shared.mu": &i.shared.mu, "deltasMu": i.shared.distribution.deltasMu,
		"processor.mu": i.processor.Lock()}
}

// Deltas returns deltasMu. Holding it blocks the loop.
func Deltas(i *Informer) patient.Mutex { return i.shared.distribution.deltasMu }

// Relist requests a list.
func Relist(i *Informer, reason reflector.Reason) { i.shared.currentReflector().Relist(reason) }

// StatusOf returns the status of one registration. In Status, handlers of the same type have the same name.
func StatusOf(reg cache.ResourceEventHandlerRegistration) (status HandlerStatus, ours bool) {
	l, ours := reg.(*delivery.Listener)
	if ours {
		status = HandlerStatus(l.Status())
	}
	return status, ours
}

// Forget removes a handler, as if it had never been registered, until restore is called: a fault for the differential
// test.
func Forget(i *Informer, reg cache.ResourceEventHandlerRegistration) (restore func()) {
	return i.processor.Hide(reg.(*delivery.Listener))
}

// WrapCursors makes the durable handlers of i use wrapped cursors, to inject faults or count costs. i must not have
// durable handlers yet.
func WrapCursors(i *Informer, wrap func(durable.Cursor) durable.Cursor) {
	o := i.shared.durableOptions()
	o.Wrap = wrap
	i.durable = durable.New(o)
}
