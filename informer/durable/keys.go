package durable

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// Keys passes the keys of changed objects to a work queue, so that the queue survives restarts: a key stays due until
// its work is done, and after a restart the keys that were due are enqueued again. See Handlers.AddKeys.
type Keys struct {
	cache.ResourceEventHandlerRegistration
	f       *follower
	enqueue func(key cache.ObjectName)

	mu      sync.Mutex
	offered map[string]offset // the newest change of each key that is due; guarded by mu
}

// AddKeys registers a durable handler that calls enqueue, which must not block, with the key of each change. The key is
// due until Begin's function is called with true. Use it with a queue other than a client-go work queue, for which
// there is AddQueue. Objects are not decoded.
//
// Up to 1,000 keys may be due; enqueue is not called for others until some are done. AddKeys fails as Add does.
func (s *Handlers) AddKeys(name string, enqueue func(key cache.ObjectName)) (*Keys, error) {
	k := &Keys{enqueue: enqueue, offered: map[string]offset{}}
	_, err := s.add(name, k, func(f *follower) { k.ResourceEventHandlerRegistration, k.f = f, f })
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Begin must be called when work on a key begins, before the object is read, and the function that it returns when the
// work ends: with true if it is done. If the object has changed in between the key stays due, and has been enqueued
// again. After the end of the informer's run the function does nothing.
func (k *Keys) Begin(key cache.ObjectName) (end func(done bool)) {
	text := key.String()
	k.mu.Lock()
	at, due := k.offered[text]
	k.mu.Unlock()
	return func(done bool) {
		if !done || !due {
			return
		}
		k.mu.Lock()
		if k.offered[text] == at {
			delete(k.offered, text)
		}
		k.mu.Unlock()
		k.f.answer(text, at)
	}
}

// ShutdownChan is closed when no key will be enqueued any more; see cache.ShutDownEventHandler.
func (k *Keys) ShutdownChan() <-chan struct{} { return k.f.done }

func (k *Keys) handle() *follower { return k.f }

func (k *Keys) offer(_ context.Context, _, last store.ChangelogEntry) (waits bool, err error) {
	name, err := cache.ParseObjectName(last.Key)
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	k.offered[last.Key] = offset{epoch: k.f.resets, seq: last.Seq}
	k.mu.Unlock()
	k.enqueue(name)
	return true, nil
}

func (k *Keys) queues() bool { return true }

func (k *Keys) reset(context.Context, store.ResetReason) error { return nil }

func (k *Keys) replayed(context.Context) error { return nil }
