package informer

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/store/query"
)

// A list by metadata pays off if objects have at least largeBody bytes and largeShare times the size of their metadata:
// each body that has changed costs a request of its own.
const (
	largeBody  = 8 << 10
	largeShare = 4
	// measured is the number of stored objects that metadataPays measures.
	measured = 64
)

// metadataPays reports whether the stored objects are so large that listing their metadata and fetching the bodies that
// have changed transfers less than a full list. It measures objects as they are stored, after the transform.
func (i *Informer) metadataPays(ctx context.Context) bool {
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

// refsPage is the object of a fifo.ReplacedByRef delta.
type refsPage struct {
	refs []entry.ObjectRef
	// lacking holds the refs whose state is not stored. The loop sets it; the sink reads it once the queue is idle.
	lacking []entry.ObjectRef
}

// knownAtOnce is how many stored objects are read in one step. Lists by metadata are made for large objects only.
const knownAtOnce = 64

// Known implements reflector.Sink. It pushes refs in pages and returns those whose state is not stored.
func (s *sink) Known(ctx context.Context, refs []entry.ObjectRef) (lacking []entry.ObjectRef, err error) {
	for chunk := range slices.Chunk(refs, knownAtOnce) {
		p := &refsPage{refs: chunk}
		err := s.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: fifo.ReplacedByRef, Object: p}, Count: len(chunk)})
		if err == nil {
			err = s.queue.WaitIdle(ctx)
		}
		if err != nil {
			return nil, err
		}
		lacking = append(lacking, p.lacking...)
	}
	return lacking, nil
}

// takeRefs handles a page of a list by metadata. An object that is stored in the listed state counts as listed; the
// others are put into pg.lacking. Only the loop writes the store, so the objects cannot change before list.Page.
func (p *loop) takeRefs(ctx context.Context, pg *refsPage) error {
	return p.take(ctx, func() (entry.Result, error) {
		if pg.lacking = nil; p.cold || p.rewrites {
			pg.lacking = pg.refs
			return entry.Result{}, nil
		}
		items := make([]runtime.Object, 0, len(pg.refs))
		for _, ref := range pg.refs {
			// An object that cannot be read counts as lacking.
			if obj, err := p.store.Get(ctx, ref.Key); err == nil && isAt(obj, ref) {
				items = append(items, obj)
			} else {
				pg.lacking = append(pg.lacking, ref)
			}
		}
		return p.list.Page(ctx, items)
	})
}

// isAt reports whether obj is in the state that ref names.
func isAt(obj runtime.Object, ref entry.ObjectRef) bool {
	if obj == nil || ref.UID == "" || ref.ResourceVersion == "" {
		return false
	}
	m, err := meta.Accessor(obj)
	return err == nil && string(m.GetUID()) == ref.UID && m.GetResourceVersion() == ref.ResourceVersion
}
