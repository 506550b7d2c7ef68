package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// mustList is the type of a delta that says that the stored state cannot be resumed. Its object is a reflector.Reason.
const mustList cache.DeltaType = "MustList"

// page is the payload of a cache.Replaced delta: a page of a list of whole objects.
type page struct {
	items []runtime.Object
	// leftOut lists the objects whose transform failed. They have not been deleted, so their stored state is kept.
	leftOut []entry.LeftOut
}

type listStart struct {
	reason  reflector.Reason
	options store.ReplaceOptions
}

// sink is the reflector.Sink of an informer, for the reflector's goroutine. It transforms objects and queues deltas.
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

// Checkpoint waits until every pushed delta has been processed, and returns the stored state.
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
	c := reflector.Checkpoint{ResourceVersion: info.ResourceVersion}
	c.Newest = append(c.Newest, info.Newest...)
	if c.Relist = s.attrs.Mismatch(); c.Relist != "" {
		s.announce(c.Relist) // announced even if leftOutIn or missingReason sets another reason
	}
	leftOutIn(info, &c)
	if info.MustRelist != "" || info.ResourceVersion == "" {
		c.Relist = missingReason(info)
	}
	return c, nil
}

// missingReason returns why a stored state that can be served cannot be resumed.
func missingReason(info entry.Info) reflector.Reason {
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

// info reads the collection's Info. It reports a failure and retries. It returns an error only if ctx has ended or the
// store is closed.
func (s *sink) info(ctx context.Context) (entry.Info, error) {
	for delay := storeBackoff(); ; {
		info, err := s.store.Info(ctx)
		if err == nil || ctx.Err() != nil || isClosed(err) {
			return info, err
		}
		utilruntime.HandleErrorWithContext(ctx, err, "Failed to read the state of the store; trying again")
		if err := base.Sleep(ctx, s.clock, delay.Step()); err != nil {
			return info, err
		}
	}
}

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
		// The object is deleted even though its last state cannot be transformed; see also loop.unknownToHandlers.
		s.skip(ctx, keyOf(obj), err)
		d.Object = cache.DeletedFinalStateUnknown{Key: keyOf(obj)}
	default:
		s.skip(ctx, keyOf(obj), err)
		d.Type, d.Object = fifo.LeftOut, leftOutByTransform(obj)
	}
	return s.queue.Push(ctx, d)
}

func (s *sink) Bookmark(ctx context.Context, resourceVersion string) error {
	return s.queue.Push(ctx, fifo.Delta{
		Delta:           cache.Delta{Type: cache.Bookmark, Object: cache.BookmarkInfo{ResourceVersion: resourceVersion}},
		ResourceVersion: resourceVersion,
	})
}

func (s *sink) BeginReplace(ctx context.Context, reason reflector.Reason) error {
	if reason == reflector.ReasonDamaged {
		s.sync.missing.Store(true) // loop.look need not request another list
	}
	return s.push(ctx, fifo.ReplaceStarted, listStart{reason, s.attrs.ForList(reason)})
}

// Page pushes a page of the list, and returns when the process loop has processed it. So the queue holds at most one
// page, which bounds its memory: the bytes of pages are not counted.
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

func (s *sink) EndReplace(ctx context.Context, resourceVersion string) error {
	err := s.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: fifo.ReplaceFinished}, ResourceVersion: resourceVersion})
	if err == nil {
		s.attrs.Listed(true)
	}
	return err
}

func (s *sink) AbortReplace(ctx context.Context) error {
	s.attrs.Listed(false)
	return s.push(ctx, fifo.ReplaceAborted, nil)
}

func (s *sink) MustList(ctx context.Context, reason reflector.Reason) error {
	return s.push(ctx, mustList, reason)
}

// Synced pushes a fifo.Drained delta, which follows the server's state at the last contact in the queue.
func (s *sink) Synced(ctx context.Context) error {
	s.sync.pushed.Add(1)
	return s.push(ctx, fifo.Drained, nil)
}

func (s *sink) push(ctx context.Context, t cache.DeltaType, obj any) error {
	return s.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: t, Object: obj}})
}

func keyOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return ""
	}
	return key
}

// contact notes when the server last confirmed the received objects as its current state, or sent a newer state.
func (i *sharedInformer) contact(at time.Time) {
	i.lastContact.Store(max(i.lastContact.Load(), at.UnixNano()))
}

func (i *sharedInformer) contactTime() time.Time {
	ns := i.lastContact.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func (i *sharedInformer) skip(ctx context.Context, key string, err error) {
	i.skipped.Add(1)
	i.auditor.Skipped(key)
	err = fmt.Errorf("couldn't enqueue object: %w", err) // the message is client-go's
	utilruntime.HandleErrorWithContext(ctx, err, "Object left out of the store", "type", i.o.ObjectDescription,
		"collection", i.o.Identity.String(), "key", key)
}

// admit returns a function for reflector.Options.Admit. It refuses objects outside id's namespace, and objects that do
// not match id's label selector. id must be canonical.
func admit(id entry.Identity) func(runtime.Object) error {
	selector := labels.Everything()
	if s, err := labels.Parse(id.LabelSelector); err == nil {
		selector = s
	}
	return func(obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		if ns := o.GetNamespace(); id.Namespace != "" && ns != id.Namespace {
			where := "namespace " + ns
			if ns == "" {
				where = "objects without a namespace"
			}
			return fmt.Errorf(
				"Options.Identity says namespace %s, and the ListerWatcher lists %s; make one from the other with "+
					"requests.ListWatch", id.Namespace, where)
		}
		if !selector.Matches(labels.Set(o.GetLabels())) {
			return fmt.Errorf(
				"Options.Identity says label selector %s, and the ListerWatcher lists objects that it does not select; make one "+
					"from the other with requests.ListWatch", id.LabelSelector)
		}
		return nil
	}
}

// stores returns a function that reports whether an informer with this identity stores a listed object. Servers without
// the feature gate for shards also send objects of other shards. id must be canonical.
func stores(id entry.Identity) func(runtime.Object) bool {
	admits, shards := admit(id), id.Shards()
	return func(obj runtime.Object) bool {
		ours, err := shards.Matches(obj)
		return admits(obj) == nil && (ours || err != nil)
	}
}

// apply decodes the object and runs the transform on it; without a transform it returns obj. It restores the object's
// namespace, name, UID and resourceVersion. With utilruntime.ReallyCrash off, a panic counts as an error.
func apply(logger klog.Logger, transform cache.TransformFunc, obj runtime.Object) (out runtime.Object, err error) {
	if transform == nil {
		return obj, nil
	}
	if obj, err = entry.Decoded(obj); err != nil {
		return nil, fmt.Errorf("the transform function needs the object: %w", err)
	}
	m, noMeta := meta.Accessor(obj)
	var sent identity
	if noMeta == nil {
		sent = identityOf(m)
	}
	err = errors.New("the transform function panicked")
	defer utilruntime.HandleCrashWithLogger(logger)
	got, err := transform(obj)
	if err != nil {
		return nil, fmt.Errorf("the transform function failed: %w", err)
	}
	out, ok := got.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("the transform function returned a %T, which is no runtime.Object and cannot be stored", got)
	}
	if m, err := meta.Accessor(out); err == nil && noMeta == nil && identityOf(m) != sent {
		sent.putBack(m)
	}
	return out, nil
}

// identity is the metadata by which restarts and audits compare an object with the server's; transforms keep it.
type identity struct {
	namespace, name, resourceVersion string
	uid                              types.UID
}

func identityOf(m metav1.Object) identity {
	return identity{m.GetNamespace(), m.GetName(), m.GetResourceVersion(), m.GetUID()}
}

func (i identity) putBack(m metav1.Object) {
	m.SetNamespace(i.namespace)
	m.SetName(i.name)
	m.SetResourceVersion(i.resourceVersion)
	m.SetUID(i.uid)
}

// leftOutIn adds to the checkpoint the objects that earlier runs could not store. If info does not name all of them, it
// requests a list of everything.
func leftOutIn(info entry.Info, c *reflector.Checkpoint) {
	if info.LeftOutMore && c.Relist == "" {
		c.Relist = reflector.ReasonLeftOut
	}
	for _, l := range info.LeftOut {
		c.LeftOut = append(c.LeftOut, l.ObjectRef)
	}
}

func leftOutUndecodable(info entry.Info) bool {
	return info.LeftOutMore || slices.ContainsFunc(info.LeftOut, func(l entry.LeftOut) bool {
		return l.Reason == entry.LeftOutCodec
	})
}

// leftOutByTransform returns the entry.LeftOut of an object whose transform failed, or that could not be decoded for
// the transform.
func leftOutByTransform(obj runtime.Object) entry.LeftOut {
	l := entry.LeftOut{Reason: entry.LeftOutTransform}
	if u, ok := obj.(*entry.Undecoded); ok && u.Err() != nil {
		l.Reason = entry.LeftOutCodec
	}
	if m, err := meta.Accessor(obj); err == nil {
		l.ObjectRef = entry.RefOf(m)
	}
	return l
}

// defaultSize is the size of typed objects without a Size method.
const defaultSize = 1 << 10

// sizeOf returns the approximate size of obj in bytes, for the queue's limit.
func sizeOf(obj runtime.Object) int64 {
	switch o := obj.(type) {
	case interface{ Size() int }: // the protobuf generator makes Size
		return int64(o.Size())
	case runtime.Unstructured:
		return sizeOfValue(o.UnstructuredContent())
	}
	return defaultSize
}

func sizeOfValue(v any) int64 {
	const word = 16
	switch v := v.(type) {
	case string:
		return word + int64(len(v))
	case map[string]any:
		n := int64(3 * word)
		for k, e := range v {
			n += word + int64(len(k)) + sizeOfValue(e)
		}
		return n
	case []any:
		n := int64(word)
		for _, e := range v {
			n += sizeOfValue(e)
		}
		return n
	}
	return word
}
