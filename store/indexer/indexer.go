package indexer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Indexer is a collection as a cache.Indexer of client-go, with the same results and errors. Objects that are not in
// memory are decoded anew by each call.
//
// If a read fails, methods without an error result return the objects that could be read, and Err keeps the first
// error. After the store was closed they return the last state if all objects are in memory. Otherwise they return
// nothing, and the first error is logged. Methods that write use Apply and BeginReplace; they are for programs that
// write to a store themselves, not for readers of an informer.
type Indexer struct {
	b  Backend
	in *engine.Intake // the collection's intake, for keys and index functions
	// remaining returns the objects of the collection if all are in memory, also after the store was closed.
	remaining func() (engine.ResidentReader, bool)

	// before is called before each read; nil if there is nothing to call.
	before atomic.Pointer[func()]

	mu     sync.Mutex
	err    error         // first error of a method without an error result; guarded by mu
	failed chan struct{} // guarded by mu; closed while err is not nil
}

var _ cache.Indexer = (*Indexer)(nil)

// Backend is the collection of an Indexer. It has a part of the methods of store.Interface.
type Backend interface {
	Info(ctx context.Context) (entry.Info, error)
	Get(ctx context.Context, key string) (runtime.Object, error)
	List(ctx context.Context) ([]runtime.Object, error)
	Keys(ctx context.Context) ([]string, error)
	ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error)
	IndexKeys(ctx context.Context, index, value string) ([]string, error)
	IndexValues(ctx context.Context, index string) ([]string, error)
	Apply(ctx context.Context, b entry.Batch) (entry.Result, error)
	Indexers() cache.Indexers
	AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error
}

// New returns the Indexer of a collection with the intake in. remaining returns the objects if all are in memory, also
// after the store was closed. New is for the packages of the store; other packages call Indexer of the collection.
func New(b Backend, in *engine.Intake, remaining func() (engine.ResidentReader, bool)) *Indexer {
	return &Indexer{b: b, in: in, remaining: remaining, failed: make(chan struct{})}
}

// Err returns the first error of a method without an error result, or the reason why a stored object is not in an
// index; nil if there is none.
func (i *Indexer) Err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		return i.in.Set.Load().Err()
	}
	return i.err
}

// Failed returns a channel that is closed by the first error of a method without an error result. ClearErr replaces it
// by a new one.
func (i *Indexer) Failed() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failed
}

// ClearErr clears the error. Call it after the cause has been repaired.
func (i *Indexer) ClearErr() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		i.err, i.failed = nil, make(chan struct{})
	}
}

// BeforeRead sets a function that is called before each read of objects or keys; nil removes it.
func (i *Indexer) BeforeRead(fn func()) {
	if fn == nil {
		i.before.Store(nil)
		return
	}
	i.before.Store(&fn)
}

func (i *Indexer) reads() {
	if fn := i.before.Load(); fn != nil {
		(*fn)()
	}
}

func (i *Indexer) fail(method string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		return
	}
	i.err = fmt.Errorf("cache.Indexer.%s: %w", method, err)
	close(i.failed)
	if errors.Is(err, boltfile.ErrClosed) { // after the close no informer runs that would report the error
		klog.Background().Error(i.err, "A cache was read after its store was closed, and looks empty to its reader")
	}
}

// rest returns the objects in memory if err says that the store is closed and all objects are there. Otherwise it keeps
// the error of the method for Err and returns false.
func (i *Indexer) rest(method string, err error) (engine.ResidentReader, bool) {
	if errors.Is(err, boltfile.ErrClosed) {
		if rest, ok := i.remaining(); ok {
			return rest, true
		}
	}
	i.fail(method, err)
	return engine.ResidentReader{}, false
}

// key returns the object's key, or a cache.KeyError whose text, unlike in client-go, does not contain the object.
func (i *Indexer) key(obj any) (string, error) {
	key, err := i.in.KeyOf(obj)
	if err != nil {
		return "", cache.KeyError{Obj: fmt.Sprintf("a %T", obj), Err: err}
	}
	return key, nil
}

// Add implements cache.Store.
func (i *Indexer) Add(obj any) error { return i.apply(entry.Upsert, obj) }

// Update implements cache.Store.
func (i *Indexer) Update(obj any) error { return i.apply(entry.Upsert, obj) }

// Delete implements cache.Store.
func (i *Indexer) Delete(obj any) error { return i.apply(entry.Delete, obj) }

// apply writes one object. As in client-go, the store then has the object's resourceVersion, if there is one.
func (i *Indexer) apply(t entry.OpType, obj any) error {
	if _, err := i.key(obj); err != nil {
		return err
	}
	batch := entry.Batch{Ops: []entry.Op{{Type: t, Object: obj}}}
	if o, ok := obj.(runtime.Object); ok {
		if _, rv := engine.IdentityOf(o); entry.ComparableRV(rv) {
			batch.ResourceVersion = rv
		}
	}
	res, err := i.b.Apply(context.Background(), batch)
	if err == nil && len(res.Skipped) > 0 {
		err = res.Skipped[0].Err
	}
	return err
}

// List implements cache.Store.
func (i *Indexer) List() []any {
	i.reads()
	objs, err := i.b.List(context.Background())
	if err != nil {
		if rest, ok := i.rest("List", err); ok {
			objs, _ = rest.List(context.Background())
		}
	}
	return anys(objs)
}

// ListKeys implements cache.Store.
func (i *Indexer) ListKeys() []string {
	i.reads()
	keys, err := i.b.Keys(context.Background())
	if err != nil {
		keys = []string{}
		if rest, ok := i.rest("ListKeys", err); ok {
			keys, _ = rest.Keys(context.Background())
		}
	}
	return keys
}

// Get implements cache.Store.
func (i *Indexer) Get(obj any) (item any, exists bool, err error) {
	key, err := i.key(obj)
	if err != nil {
		return nil, false, err
	}
	return i.GetByKey(key)
}

// GetByKey implements cache.Store.
func (i *Indexer) GetByKey(key string) (item any, exists bool, err error) {
	i.reads()
	obj, err := i.b.Get(context.Background(), key)
	if err != nil || obj == nil {
		return nil, false, err
	}
	return obj, true, nil
}

// Replace implements cache.Store. If an object cannot be stored, nothing is replaced and the error says why.
func (i *Indexer) Replace(list []any, resourceVersion string) error {
	ctx := context.Background()
	items := make([]runtime.Object, len(list))
	for n, obj := range list {
		if _, err := i.key(obj); err != nil {
			return err
		}
		item, ok := obj.(runtime.Object)
		if !ok {
			return fmt.Errorf("a %T cannot be stored", obj)
		}
		items[n] = item
	}
	info, err := i.b.Info(ctx)
	if err != nil {
		return err
	}
	r, err := i.in.Begin(ctx, engine.ReplaceOptions{Rewrite: true, Attributes: info.Attributes})
	if err != nil {
		return err
	}
	defer r.Abort()
	res, err := r.Page(ctx, items)
	if err == nil && len(res.Skipped) > 0 {
		err = res.Skipped[0].Err
	}
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		res, err = r.Commit(ctx, entry.Batch{ResourceVersion: resourceVersion})
		more = res.More
	}
	return err
}

// Resync implements cache.Store. It does nothing.
func (i *Indexer) Resync() error { return nil }

// Bookmark implements cache.Store.
func (i *Indexer) Bookmark(rv string) {
	if _, err := i.b.Apply(context.Background(), entry.Batch{ResourceVersion: rv}); err != nil {
		i.fail("Bookmark", err)
	}
}

// LastStoreSyncResourceVersion implements cache.Store.
func (i *Indexer) LastStoreSyncResourceVersion() string {
	info, err := i.b.Info(context.Background())
	if err != nil {
		i.fail("LastStoreSyncResourceVersion", err)
	}
	return info.ResourceVersion
}

// Index implements cache.Indexer. obj need not be of the type that is stored: listers pass a bare *metav1.ObjectMeta.
func (i *Indexer) Index(indexName string, obj any) ([]any, error) {
	i.reads()
	fn, err := i.in.IndexFunc(indexName)
	if err != nil {
		return nil, err
	}
	values, err := engine.IndexValues(indexName, fn, obj)
	if err != nil {
		return nil, err
	}
	objs, err := i.b.ByIndex(context.Background(), indexName, values...)
	if err != nil {
		return nil, err
	}
	return anys(objs), nil
}

// IndexKeys implements cache.Indexer.
func (i *Indexer) IndexKeys(indexName, indexedValue string) ([]string, error) {
	i.reads()
	return i.b.IndexKeys(context.Background(), indexName, indexedValue)
}

// ListIndexFuncValues implements cache.Indexer. Like client-go it returns nothing if the index does not exist.
func (i *Indexer) ListIndexFuncValues(indexName string) []string {
	if _, err := i.in.IndexFunc(indexName); err != nil {
		return []string{}
	}
	values, err := i.b.IndexValues(context.Background(), indexName)
	if err != nil {
		values = []string{}
		if rest, ok := i.rest("ListIndexFuncValues", err); ok {
			values, _ = rest.IndexValues(context.Background(), indexName)
		}
	}
	return values
}

// ByIndex implements cache.Indexer.
func (i *Indexer) ByIndex(indexName, indexedValue string) ([]any, error) {
	i.reads()
	objs, err := i.b.ByIndex(context.Background(), indexName, indexedValue)
	if err != nil {
		return nil, err
	}
	return anys(objs), nil
}

// GetIndexers implements cache.Indexer. The map is the caller's.
func (i *Indexer) GetIndexers() cache.Indexers { return i.b.Indexers() }

// addWait is the timeout of AddIndexers, since the disk may hang.
const addWait = 2 * time.Minute

// AddIndexers implements cache.Indexer. It fails, and adds nothing, if the indexes cannot be built in two minutes.
func (i *Indexer) AddIndexers(newIndexers cache.Indexers) error {
	ctx, cancel := context.WithTimeout(context.Background(), addWait)
	defer cancel()
	return i.b.AddIndexers(ctx, newIndexers, nil)
}

func anys(objs []runtime.Object) []any {
	list := make([]any, len(objs))
	for n, obj := range objs {
		list[n] = obj
	}
	return list
}
