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
	c *engine.Collection

	// before is called before each read; nil if there is nothing to call.
	before atomic.Pointer[func()]

	mu     sync.Mutex
	err    error         // first error of a method without an error result; guarded by mu
	failed chan struct{} // guarded by mu; closed while err is not nil
}

var _ cache.Indexer = (*Indexer)(nil)

// New returns the Indexer of a collection. It is for the packages of the store; other packages call Indexer of the
// collection.
func New(c *engine.Collection) *Indexer { return &Indexer{c: c, failed: make(chan struct{})} }

// Err returns the first error of a method without an error result, or the reason why a stored object is not in an
// index; nil if there is none.
func (i *Indexer) Err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		return i.c.Set.Load().Err()
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
// the error of the method for Err and returns nil.
func (i *Indexer) rest(method string, err error) *engine.ResidentTable {
	if errors.Is(err, boltfile.ErrClosed) {
		if rest := i.c.Remaining(); rest != nil {
			return rest
		}
	}
	i.fail(method, err)
	return nil
}

// key returns the object's key, or a cache.KeyError whose text, unlike in client-go, does not contain the object.
func (i *Indexer) key(obj any) (string, error) {
	key, err := i.c.KeyFunc(obj)
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
	res, err := i.c.Apply(context.Background(), batch)
	if err == nil && len(res.Skipped) > 0 {
		err = res.Skipped[0].Err
	}
	return err
}

// List implements cache.Store.
func (i *Indexer) List() []any {
	i.reads()
	objs, err := i.c.List(context.Background())
	if err != nil {
		if rest := i.rest("List", err); rest != nil {
			objs = rest.List()
		}
	}
	return anys(objs)
}

// ListKeys implements cache.Store.
func (i *Indexer) ListKeys() []string {
	i.reads()
	keys, err := i.c.Keys(context.Background())
	if err != nil {
		keys = []string{}
		if rest := i.rest("ListKeys", err); rest != nil {
			keys = rest.Keys()
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
	obj, err := i.c.Get(context.Background(), key)
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
	info, err := i.c.Info(ctx)
	if err != nil {
		return err
	}
	r, err := i.c.Begin(ctx, engine.ReplaceOptions{Rewrite: true, Attributes: info.Attributes})
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
	if _, err := i.c.Apply(context.Background(), entry.Batch{ResourceVersion: rv}); err != nil {
		i.fail("Bookmark", err)
	}
}

// LastStoreSyncResourceVersion implements cache.Store.
func (i *Indexer) LastStoreSyncResourceVersion() string {
	info, err := i.c.Info(context.Background())
	if err != nil {
		i.fail("LastStoreSyncResourceVersion", err)
	}
	return info.ResourceVersion
}

// Index implements cache.Indexer. obj need not be of the type that is stored: listers pass a bare *metav1.ObjectMeta.
func (i *Indexer) Index(indexName string, obj any) ([]any, error) {
	i.reads()
	fn, err := i.c.IndexFunc(indexName)
	if err != nil {
		return nil, err
	}
	values, err := engine.IndexValues(indexName, fn, obj)
	if err != nil {
		return nil, err
	}
	objs, err := i.c.ByIndex(context.Background(), indexName, values...)
	if err != nil {
		return nil, err
	}
	return anys(objs), nil
}

// IndexKeys implements cache.Indexer.
func (i *Indexer) IndexKeys(indexName, indexedValue string) ([]string, error) {
	i.reads()
	return i.c.IndexKeys(context.Background(), indexName, indexedValue)
}

// ListIndexFuncValues implements cache.Indexer. Like client-go it returns nothing if the index does not exist.
func (i *Indexer) ListIndexFuncValues(indexName string) []string {
	if _, err := i.c.IndexFunc(indexName); err != nil {
		return []string{}
	}
	values, err := i.c.IndexValues(context.Background(), indexName)
	if err != nil {
		values = []string{}
		if rest := i.rest("ListIndexFuncValues", err); rest != nil {
			values = rest.IndexValues(indexName)
		}
	}
	return values
}

// ByIndex implements cache.Indexer.
func (i *Indexer) ByIndex(indexName, indexedValue string) ([]any, error) {
	i.reads()
	objs, err := i.c.ByIndex(context.Background(), indexName, indexedValue)
	if err != nil {
		return nil, err
	}
	return anys(objs), nil
}

// GetIndexers implements cache.Indexer. The map is the caller's.
func (i *Indexer) GetIndexers() cache.Indexers { return i.c.Indexers() }

// addWait is the timeout of AddIndexers, since the disk may hang.
const addWait = 2 * time.Minute

// AddIndexers implements cache.Indexer. It fails, and adds nothing, if the indexes cannot be built in two minutes.
func (i *Indexer) AddIndexers(newIndexers cache.Indexers) error {
	ctx, cancel := context.WithTimeout(context.Background(), addWait)
	defer cancel()
	return i.c.AddIndexers(ctx, newIndexers, nil)
}

func anys(objs []runtime.Object) []any {
	list := make([]any, len(objs))
	for n, obj := range objs {
		list[n] = obj
	}
	return list
}
