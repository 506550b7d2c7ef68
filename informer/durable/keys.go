package durable

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// Keys are the keys of what has changed, for a queue of work that survives restarts: a key stays due until its work is
// done, and a process that starts anew is told of the keys that were due, and no others. See Handlers.AddKeys.
type Keys struct {
	cache.ResourceEventHandlerRegistration
	f       *follower
	enqueue func(key cache.ObjectName)

	mu      sync.Mutex
	offered map[string]offset // the newest change of each key that is due; guarded by mu
}

// AddKeys registers a durable handler that calls enqueue with the key of each change, which must not block. A key is
// due from then on until Begin's function is called with true. It is what a Queue is made of, for those who have a
// queue of their own. Objects are not decoded for it.
//
// Up to 1,000 keys may be due: no more are told until some are done. It fails as Add does.
func (s *Handlers) AddKeys(name string, enqueue func(key cache.ObjectName)) (*Keys, error) {
	k := &Keys{enqueue: enqueue, offered: map[string]offset{}}
	_, err := s.add(name, k, func(f *follower) { k.ResourceEventHandlerRegistration, k.f = f, f })
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Begin is called when work on a key begins, before the object is read. The function that it returns is to be called
// at its end: with true if the key is done. If the object has changed in between it stays due, and has been enqueued
// again. After the end of the informer's run it does nothing.
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

func (k *Keys) offer(_ context.Context, _, last store.FeedChange) (waits bool, err error) {
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
