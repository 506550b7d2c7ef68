package informer

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// restore gives the stored objects to the handlers that were registered before the start. The stream is not touched
// before that is done, so nothing comes earlier.
func (p *pump) restore(ctx context.Context) error {
	info, err := p.store.Info(ctx)
	if err != nil {
		return err
	}
	after := ""
	err = p.store.Iterate(ctx, after, func(key string, obj runtime.Object) error {
		p.detector.AddObject(obj)
		for _, l := range p.replay {
			l.add(notification{typ: cache.Added, new: obj, initial: true})
		}
		after = key
		return ctx.Err()
	})
	p.replay = nil
	if ctx.Err() != nil || isClosed(err) {
		return err
	}
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Stored objects could not be read", "type", p.o.ObjectDescription, "after", after)
	}
	if p.o.SyncPolicy == Disk && info.Complete {
		p.markSynced()
	}
	return nil
}
