package informer

import (
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// This file exports the package's internals that its tests use. A rewrite of the package has to provide these
// functions.

func Store(i *Informer) store.Interface { return i.shared.store }

// SetStore replaces the informer's store before its run, for example by a store that fails, is slow or finds damage.
func SetStore(i *Informer, s store.Interface) { i.shared.store, i.shared.distribution.store = s, s }

// SetFailure replaces the reported failure of the informer's store file by f.
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

func SetListerWatcher(i *Informer, lw cache.ListerWatcher) {
	i.shared.lw = lw
	i.shared.source, i.shared.undecoded = i.shared.listed()
}

func OptionsOf(i *Informer) Options { return i.o }

// SetPages sets how many stored objects a handler's queue reads at a time, so that few objects make several pages.
func SetPages(i *Informer, objects int) { i.shared.distribution.limit = objects }

// Lock is a mutex whose state tests read with TryLock.
type Lock interface {
	TryLock() bool
	Unlock()
}

// Locks returns the informer's mutexes by name. The informer must call no user code while it holds one of them.
func Locks(i *Informer) map[string]Lock {
	return map[string]Lock{"mu": &i.mu, "shared.mu": &i.shared.mu, "deltasMu": i.shared.distribution.deltasMu,
		"processor.mu": i.processor.Lock()}
}

// Deltas returns deltasMu, the mutex under which changes are stored and queued for handlers. The process loop needs it.
func Deltas(i *Informer) base.Mutex { return i.shared.distribution.deltasMu }

func Relist(i *Informer, reason reflector.Reason) { i.shared.currentReflector().Relist(reason) }

// StatusOf returns the status of one registration; Informer.Status does not distinguish handlers of one type. ours is
// false for a registration of another implementation.
func StatusOf(reg cache.ResourceEventHandlerRegistration) (status HandlerStatus, ours bool) {
	l, ours := reg.(*delivery.Listener)
	if ours {
		status = HandlerStatus(l.Status())
	}
	return status, ours
}

// Forget removes a handler, as if it had never been registered, until restore is called. The differential test injects
// this fault.
func Forget(i *Informer, reg cache.ResourceEventHandlerRegistration) (restore func()) {
	return i.processor.Hide(reg.(*delivery.Listener))
}

// WrapCursors wraps the cursors of the informer's later durable handlers, to inject faults or to count costs.
func WrapCursors(i *Informer, wrap func(durable.Cursor) durable.Cursor) {
	o := i.shared.durableOptions()
	o.Wrap = wrap
	i.durable = durable.New(o)
}
