package informer

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

const (
	// mostComparedAtStart is the maximum size of a collection that is compared with the server's metadata when a run
	// begins. With 10,000 objects that takes half the time of a list. With more, waiting for a bookmark is faster.
	mostComparedAtStart = 10_000
	// mostComparedLater is the maximum size of a collection that is compared with the server's metadata after a lost
	// connection. The metadata of that many objects is about as large as the answers to the alternative: a probe and
	// five look-ups of single objects.
	mostComparedLater = 100
	// moreListed is how many more objects the server may list than are stored. With more, the comparison fails.
	moreListed = 1000
	// comparedWithin is the timeoutSeconds of the metadata request for a comparison. API servers use it for watches
	// only. No other list request sets it, so it identifies comparisons in an API server's audit log, which does not
	// record that a request is for metadata.
	comparedWithin = 1
	// idleWait bounds the wait until the events that were received before the connection was lost are stored.
	idleWait = 10 * time.Second
)

// comparer returns the function that compares the stored objects with a list of the server's metadata. It returns nil
// if Options.ListMetadata is nil: a comparison would list whole objects.
func (i *sharedInformer) comparer() func(ctx context.Context) (reflector.Comparison, error) {
	if i.o.ListMetadata == nil {
		return nil
	}
	stored := stores(i.Identity())
	return func(ctx context.Context) (reflector.Comparison, error) {
		held, refused, err := i.held(ctx)
		if err != nil {
			return reflector.Comparison{}, err
		}
		within := int64(comparedWithin)
		list, err := i.o.ListMetadata(ctx, metav1.ListOptions{Limit: int64(len(held) + moreListed), TimeoutSeconds: &within})
		if err != nil {
			return reflector.Comparison{}, err
		}
		if list.Continue != "" {
			return reflector.Comparison{}, fmt.Errorf("%w: it has more than %d objects, and %d are stored",
				reflector.ErrIncomparable, len(list.Items), len(held))
		}
		c := reflector.Comparison{ResourceVersion: list.ResourceVersion}
		for n := range list.Items {
			obj := &list.Items[n]
			if obj.UID == "" || obj.ResourceVersion == "" {
				return reflector.Comparison{}, fmt.Errorf("%w: its metadata lack a UID or a resourceVersion",
					reflector.ErrIncomparable)
			}
			if !stored(obj) {
				continue
			}
			listed := entry.RefOf(obj)
			have := held[listed.Key]
			delete(held, listed.Key)
			if listed != have && listed != refused[listed.Key] {
				c.Differences = append(c.Differences, reflector.Difference{Held: have, Listed: listed})
			}
		}
		for _, gone := range held {
			c.Differences = append(c.Differences, reflector.Difference{Held: gone})
		}
		return c, nil
	}
}

// held returns the references to the stored objects by key. refused are the references to left-out states of objects,
// by key. held first waits until the delivered events are stored.
func (i *sharedInformer) held(ctx context.Context) (held, refused map[string]entry.ObjectRef, err error) {
	idle, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	if err := i.queue.WaitIdle(idle); err != nil {
		return nil, nil, fmt.Errorf("%w: events wait to be stored: %w", reflector.ErrIncomparable, err)
	}
	info, err := i.store.Info(ctx)
	if err != nil {
		return nil, nil, err
	}
	refs, err := i.store.Refs(ctx, "", mostComparedAtStart+1)
	if err != nil {
		return nil, nil, err
	}
	if len(refs) > mostComparedAtStart || info.LeftOutMore {
		return nil, nil, fmt.Errorf("%w: too many objects are stored, or were left out", reflector.ErrIncomparable)
	}
	held, refused = make(map[string]entry.ObjectRef, len(refs)), map[string]entry.ObjectRef{}
	for _, ref := range refs {
		held[ref.Key] = ref
	}
	for _, l := range info.LeftOut {
		refused[l.Key] = l.ObjectRef
	}
	return held, refused, nil
}

// comparisonPays reports whether the collection is small enough to be compared with a list of the server's metadata.
func (i *sharedInformer) comparisonPays(ctx context.Context, starts bool) bool {
	most := mostComparedLater
	if starts {
		most = mostComparedAtStart
	}
	info, err := i.store.Info(ctx)
	return err == nil && info.Objects <= most && !info.LeftOutMore
}
