package informer

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// DurableKeys are the keys of what has changed, for a queue of work that survives restarts: a key stays due until its work is done, and
// a process that starts anew is told of the keys that were due, and no others. See AddDurableKeys.
type DurableKeys struct {
	cache.ResourceEventHandlerRegistration
	d       *durable
	enqueue func(key cache.ObjectName)

	mu      sync.Mutex
	offered map[string]offset // the newest change of each key that is due; guarded by mu
}

// AddDurableKeys registers a durable handler that calls enqueue with the key of each change, which must not block. A key is due from then on
// until Begin's function is called with true. It is what DurableQueue is made of, for those who have a queue of their own.
//
// Up to 1,000 keys may be due: no more are told until some are done.
func (i *Informer) AddDurableKeys(name string, enqueue func(key cache.ObjectName)) (*DurableKeys, error) {
	k := &DurableKeys{enqueue: enqueue, offered: map[string]offset{}}
	d, err := i.newDurable(name, k)
	if err != nil {
		return nil, i.notAdded(name, err)
	}
	k.ResourceEventHandlerRegistration, k.d = d, d
	i.durables.begin(d)
	return k, nil
}

// Begin is called when work on a key begins, before the object is read. The function that it returns is to be called at its end: with true if the
// key is done. If the object has changed in between it stays due, and has been enqueued again. After the end of the informer's run it does nothing.
func (k *DurableKeys) Begin(key cache.ObjectName) (end func(done bool)) {
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
		k.d.answer(text, at)
	}
}

// ShutdownChan is closed when no key will be enqueued any more; see cache.ShutDownEventHandler.
func (k *DurableKeys) ShutdownChan() <-chan struct{} { return k.d.done }

func (k *DurableKeys) handle() *durable { return k.d }

func (k *DurableKeys) offer(_ context.Context, _, last Change) (waits bool, err error) {
	name, err := cache.ParseObjectName(last.Key)
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	k.offered[last.Key] = offset{epoch: k.d.resets, seq: last.Seq}
	k.mu.Unlock()
	k.enqueue(name)
	return true, nil
}

func (k *DurableKeys) queues() bool { return true }

func (k *DurableKeys) reset(context.Context, store.ResetReason) error { return nil }

func (k *DurableKeys) replayed(context.Context) error { return nil }
