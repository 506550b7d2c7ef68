package informer

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/store"
)

// A list by metadata pays from here on: a body that is to be fetched costs a request.
const (
	largeBody  = 8 << 10
	largeShare = 4 // times its metadata
	// measured objects are enough to tell.
	measured = 64
)

// metadataPays reports whether the stored objects are so large that a list by metadata, and the bodies of those that
// have changed, are less than a list. Of a transform's work both sides are measured after it.
func (i *Informer) metadataPays(ctx context.Context) bool {
	objects, err := i.store.Select(ctx, store.Query{Limit: measured})
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
	// lacking are those that are not held in that state: the loop's answer, to be read when the queue is idle.
	lacking []entry.ObjectRef
}

// knownAtOnce is how many objects are read for a page of identities at a time: they are large, or there would be none.
const knownAtOnce = 64

// Known pushes pages of identities, and returns what the loop does not hold.
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

// takeRefs takes in a page of identities: what is stored in the listed state stands in for it. Nothing else writes the
// store while a list is taken in, so what is read here is what the page is held against.
func (p *loop) takeRefs(ctx context.Context, pg *refsPage) error {
	return p.take(ctx, func() (store.Result, error) {
		if pg.lacking = nil; p.cold || p.rewrites {
			pg.lacking = pg.refs
			return store.Result{}, nil
		}
		items := make([]runtime.Object, 0, len(pg.refs))
		for _, ref := range pg.refs {
			// What cannot be read is lacking.
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
