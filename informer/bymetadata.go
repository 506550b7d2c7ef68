package informer

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// A list by metadata lists only metadata and then fetches the changed objects one by one. It pays off if the mean
// object has at least largeBody bytes, and at least largeShare times the size of its metadata.
const (
	largeBody  = 8 << 10
	largeShare = 4
	// measured is the number of stored objects whose sizes metadataPays reads to estimate the mean.
	measured = 64
)

// metadataPays reports whether the stored objects are so large that listing metadata and fetching the changed objects
// transfers less than a full list. It measures the stored objects, after the transform. It returns false after an
// interrupted list that has stored some objects, because Info.Attributes does not describe those.
func (i *sharedInformer) metadataPays(ctx context.Context) bool {
	info, err := i.store.Info(ctx)
	if err != nil || !info.Complete || info.MustRelist == store.MustRelistInterrupted {
		return false
	}
	objects, err := i.store.Select(ctx, query.Query{Limit: measured})
	if err != nil || len(objects) == 0 {
		return false
	}
	var bodies, metadata int64
	for _, obj := range objects {
		m, err := meta.Accessor(obj)
		if err != nil {
			return false
		}
		bodies += sizeOf(obj)
		metadata += sizeOf(meta.AsPartialObjectMetadata(m))
	}
	return bodies >= largeBody*int64(len(objects)) && bodies >= largeShare*metadata
}

// refsPage is the payload of a fifo.ReplacedByRef delta: a page of a list by metadata, as references to objects.
type refsPage struct {
	refs []entry.ObjectRef
	// missing holds the references whose listed state is not stored. The process loop sets missing for sink.Known.
	missing []entry.ObjectRef
}

// Known implements reflector.Sink. It queues references to listed objects, and returns the references whose listed
// state is not stored.
func (s *sink) Known(ctx context.Context, refs []entry.ObjectRef) (missing []entry.ObjectRef, err error) {
	p := &refsPage{refs: refs}
	err = s.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: fifo.ReplacedByRef, Object: p}, Count: len(refs)})
	if err == nil {
		err = s.queue.WaitIdle(ctx)
	}
	return p.missing, err
}

// takeRefs handles a page of a list by metadata. The store compares the references with its records, not with the
// objects in memory, which handlers share and may have modified.
func (p *loop) takeRefs(ctx context.Context, pg *refsPage) error {
	return p.take(ctx, func() (res entry.Result, err error) {
		if pg.missing = pg.refs; p.cold {
			return entry.Result{}, nil
		}
		pg.missing, res, err = p.list.Known(ctx, pg.refs)
		return res, err
	})
}
