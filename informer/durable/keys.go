package durable

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/consumer"
)

// Keys passes the keys of changed objects to a work queue, and makes that queue durable: a key stays due until its work
// is done, and a restart enqueues all due keys again. See Handlers.AddKeys.
type Keys struct {
	cache.ResourceEventHandlerRegistration
	f *follower
}

// AddKeys registers a durable handler that calls enqueue, which must not block, with the key of each change: usually
// the Add of a work queue. Keys of deleted objects are enqueued too; the indexer does not have them. Objects are not
// decoded. A key is due until a worker calls the function returned by Begin with true:
//
//	key, shutdown := queue.Get()
//	end := keys.Begin(key)
//	err := work(key) // and queue.Forget, or queue.AddRateLimited if it failed
//	queue.Done(key)
//	end(err == nil)
//
// Up to 1,000 keys may be due; enqueue is not called for others until some are done. AddKeys fails as Add does.
func (s *Handlers) AddKeys(name string, enqueue func(key cache.ObjectName)) (*Keys, error) {
	f := &follower{o: s.o, name: name, queues: true}
	f.handler = Handler{OnChange: func(_ context.Context, c consumer.Change) error {
		key, err := cache.ParseObjectName(c.Key)
		if err == nil {
			enqueue(key)
		}
		return err
	}}.filled()
	if err := s.add(f); err != nil {
		return nil, err
	}
	return &Keys{f, f}, nil
}

// Begin must be called when work on a key begins, before the object is read. The worker calls the returned function
// when the work ends, with true if it is done. If the object has changed in between, the key stays due and has been
// enqueued again. After the end of the informer's run the function does nothing.
func (k *Keys) Begin(key cache.ObjectName) (end func(done bool)) {
	text := key.String()
	seq, epoch := k.f.offeredOf(text)
	return func(done bool) {
		if done && seq > 0 {
			k.f.answer(text, seq, epoch)
		}
	}
}

// ShutdownChan is closed when no key will be enqueued any more; see cache.ShutDownEventHandler.
func (k *Keys) ShutdownChan() <-chan struct{} { return k.f.done }

func (k *Keys) handle() *follower { return k.f }
