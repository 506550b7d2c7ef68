package informer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// mustList is the type of a delta whose object is the reflector.Reason for which what is stored cannot be resumed.
const mustList cache.DeltaType = "MustList"

// page is the object of a cache.Replaced delta.
type page struct {
	items []runtime.Object
	// leftOut are the listed objects whose transform failed: what is stored of them is kept, since they are not gone.
	leftOut []entry.LeftOut
}

// listStart is the object of a fifo.ReplaceStarted delta.
type listStart struct {
	reason  reflector.Reason
	options store.ReplaceOptions
}

// sink is the reflector.Sink of an informer: it transforms the objects and pushes deltas into the
// queue. The reflector's goroutine is the only one that calls it.
type sink struct {
	store     store.Interface
	queue     *fifo.Queue
	transform cache.TransformFunc
	attrs     *attributes.Tracker
	announce  func(reflector.Reason)
	clock     clock.WithTicker
	skip      func(ctx context.Context, key string, err error)
	sync      *syncing
}

var _ reflector.Sink = &sink{}

// Checkpoint returns what is stored once everything pushed so far has been.
func (s *sink) Checkpoint(ctx context.Context) (reflector.Checkpoint, error) {
	if err := s.queue.WaitIdle(ctx); err != nil {
		return reflector.Checkpoint{}, err
	}
	info, err := s.info(ctx)
	if err != nil {
		return reflector.Checkpoint{}, err
	}
	s.attrs.Load(info)
	if !info.Complete {
		return reflector.Checkpoint{}, nil
	}
	c := reflector.Checkpoint{ResourceVersion: info.ResourceVersion, Large: info.Objects > audit.MostCompared}
	c.Newest = append(c.Newest, info.Newest...)
	if c.Relist = s.attrs.Mismatch(); c.Relist != "" {
		s.announce(c.Relist) // whatever the list is for
	}
	leftOutIn(info, &c)
	if info.MustRelist != "" || info.ResourceVersion == "" {
		c.Relist = lackingReason(info)
	}
	return c, nil
}

// lackingReason is why contents that can be served cannot be resumed.
func lackingReason(info store.Info) reflector.Reason {
	switch {
	case info.MustRelist == store.MustRelistDamaged || !info.Complete:
		return reflector.ReasonDamaged
	case reflector.Reason(info.MustRelist).Lasts():
		return reflector.Reason(info.MustRelist)
	case info.ResourceVersion == "":
		return reflector.ReasonNotResumable
	}
	return reflector.ReasonStore
}

// info reads the collection's state. A failure to read is reported and repeated: the reflector has no use for it.
func (s *sink) info(ctx context.Context) (store.Info, error) {
	for delay := storeBackoff(); ; {
		info, err := s.store.Info(ctx)
		if err == nil || ctx.Err() != nil || isClosed(err) {
			return info, err
		}
		utilruntime.HandleErrorWithContext(ctx, err, "Failed to read the state of the store; trying again")
		if err := patient.Sleep(ctx, s.clock, delay.Step()); err != nil {
			return info, err
		}
	}
}

// Event pushes a change.
func (s *sink) Event(ctx context.Context, t watch.EventType, obj runtime.Object, resourceVersion string) error {
	d := fifo.Delta{ResourceVersion: resourceVersion}
	out, err := apply(klog.FromContext(ctx), s.transform, obj)
	switch t {
	case watch.Added:
		d.Type = cache.Added
	case watch.Modified:
		d.Type = cache.Updated
	case watch.Deleted:
		d.Type = cache.Deleted
	}
	switch {
	case err == nil:
		d.Object, d.Bytes = out, sizeOf(out)
	case t == watch.Deleted:
		// What is stored must not stay for ever because its last state cannot be transformed; see also loop.unheardOf.
		s.skip(ctx, keyOf(obj), err)
		d.Object = cache.DeletedFinalStateUnknown{Key: keyOf(obj)}
	default:
		s.skip(ctx, keyOf(obj), err)
		d.Type, d.Object = fifo.LeftOut, leftOutByTransform(obj)
	}
	return s.queue.Push(ctx, d)
}

// Bookmark pushes a bookmark.
func (s *sink) Bookmark(ctx context.Context, resourceVersion string) error {
	return s.queue.Push(ctx, fifo.Delta{
		Delta:           cache.Delta{Type: cache.Bookmark, Object: cache.BookmarkInfo{ResourceVersion: resourceVersion}},
		ResourceVersion: resourceVersion,
	})
}

// BeginReplace pushes the start of a list, with the attributes that its contents will have.
func (s *sink) BeginReplace(ctx context.Context, reason reflector.Reason) error {
	return s.push(ctx, fifo.ReplaceStarted, listStart{reason, s.attrs.ForList(reason)})
}

// Page pushes a page of the list, and returns when it has been taken in: while the reflector fetches the next, no other
// is held. That bounds it; nobody counts its bytes.
func (s *sink) Page(ctx context.Context, items []runtime.Object) error {
	p := page{items: make([]runtime.Object, 0, len(items))}
	d := fifo.Delta{Delta: cache.Delta{Type: cache.Replaced}, Count: len(items)}
	for _, obj := range items {
		out, err := apply(klog.FromContext(ctx), s.transform, obj)
		if err != nil {
			s.skip(ctx, keyOf(obj), err)
			p.leftOut = append(p.leftOut, leftOutByTransform(obj))
			continue
		}
		p.items = append(p.items, out)
	}
	d.Object = p
	if err := s.queue.Push(ctx, d); err != nil {
		return err
	}
	return s.queue.WaitIdle(ctx)
}

// EndReplace pushes the end of the list.
func (s *sink) EndReplace(ctx context.Context, resourceVersion string) error {
	err := s.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: fifo.ReplaceFinished}, ResourceVersion: resourceVersion})
	if err == nil {
		s.attrs.Listed(true)
	}
	return err
}

// AbortReplace pushes the end of a list that failed.
func (s *sink) AbortReplace(ctx context.Context) error {
	s.attrs.Listed(false)
	return s.push(ctx, fifo.ReplaceAborted, nil)
}

// MustList pushes that a list is due.
func (s *sink) MustList(ctx context.Context, reason reflector.Reason) error {
	return s.push(ctx, mustList, reason)
}

// Synced pushes the mark that everything the server had precedes.
func (s *sink) Synced(ctx context.Context) error {
	s.sync.pushed.Add(1)
	return s.push(ctx, fifo.Drained, nil)
}

func (s *sink) push(ctx context.Context, t cache.DeltaType, obj any) error {
	return s.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: t, Object: obj}})
}

// keyOf returns the key of obj, or empty if it has none.
func keyOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return ""
	}
	return key
}

// contact notes that the server was heard.
func (i *Informer) contact() { i.lastContact.Store(i.clock.Now().UnixNano()) }

func (i *Informer) contactTime() time.Time {
	ns := i.lastContact.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// skip reports an object that was left out.
func (i *Informer) skip(ctx context.Context, key string, err error) {
	i.skipped.Add(1)
	i.auditor.Skipped(key)
	utilruntime.HandleErrorWithContext(ctx, err, "Object left out of the store", "type", i.o.ObjectDescription, "key", key)
}
