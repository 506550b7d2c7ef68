package store

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// intake is the half of a collection that receives batches (Apply) and lists (BeginReplace). It keys, encodes and
// indexes the objects, finds out what they change, and passes the writes to the back, which holds the objects.
// Collection and Memory share it.
type intake struct {
	id      entry.Identity
	keyFunc cache.KeyFunc
	limits  limits
	back    back // set before other goroutines use the collection, like the fields above

	// set holds the index functions. Writes that were indexed with another set are indexed again before they are put.
	set atomic.Pointer[index.Set]
	// front is held while writes are put into the back. Nobody waits for the disk while holding it.
	front sync.Mutex
	// replacing is the open replacement, or nil; guarded by front.
	replacing *replacement
	// unheard has the keys of objects that an earlier process stored from a list that did not end: nobody in this process
	// has been told of them. Only the open replacement uses it.
	unheard  map[string]struct{}
	reported atomic.Bool // true once changes of objects have been reported in this process

	pause pause // makes writers wait; waited for before any lock is taken

	// hot holds the objects in memory while reads are to use them, else nil: the fast path of reads by key.
	hot atomic.Pointer[resident.KeyMap]
}

// back is the other half of a collection, which holds the objects: in a file with a memtable over it (Collection), or
// in memory alone (Memory). Its methods do not call user code. front may be held or not unless a method's comment says
// otherwise.
type back interface {
	Info(ctx context.Context) (entry.Info, error)
	Keys(ctx context.Context) ([]string, error)
	// encoder returns the encoder that prepares writes for the back. If set is nil it can only key them.
	encoder(set *index.Set) encoder

	// look calls fn with a consistent view of the objects.
	look(ctx context.Context, fn func(h held) error) error
	// beforeBatch returns the current objects under the keys of the writes, and the Info, as of the last batch.
	beforeBatch(ctx context.Context, writes []*memtable.Write) (map[string]*pending, entry.Info, error)

	// backpressure waits while too many bytes are dirty. If paced is true it also slows the caller
	// to the pace of the disk. front must not be held.
	backpressure(ctx context.Context, paced bool) error
	// takesIn returns an error if put can no longer be called. front must be held.
	takesIn() error
	// put makes the writes, the last one of each key, and the Info visible to readers in one step. settles is not nil if
	// they end a list. front must be held.
	put(last []*memtable.Write, info entry.Info, settles *settled)

	// losses grows whenever something that was put has been lost; see Collection.Losses.
	losses() int
	// listEnded is called when all of a list has been put. front must not be held.
	listEnded()
}

// markMustRelist sets Info.MustRelist to reason. It fails with ErrReplacing while a list is open.
func (in *intake) markMustRelist(ctx context.Context, reason string) error {
	in.front.Lock()
	defer in.front.Unlock()
	if err := in.back.takesIn(); err != nil {
		return err
	}
	if in.replacing != nil {
		return ErrReplacing
	}
	_, info, err := in.beforeWrites(ctx, nil)
	if err != nil {
		return err
	}
	info.MustRelist = reason
	in.back.put(nil, info, nil)
	return nil
}

// Indexers returns the index functions. The map is the caller's.
func (in *intake) Indexers() cache.Indexers { return in.set.Load().Funcs() }

func (in *intake) indexFunc(name string) (cache.IndexFunc, error) { return in.set.Load().Find(name) }

func (in *intake) keyOf(obj any) (string, error) { return in.keyFunc(obj) }

// patience is how many times AddIndexers tries to catch up with concurrent writes before it makes writers wait.
const patience = 3

// untilAdded calls add until it returns true or an error. add computes terms under no lock, and returns false if
// something was written since. After patience rounds writers have to wait.
func (in *intake) untilAdded(add func() (done bool, err error)) error {
	for round := 0; ; round++ {
		if round == patience {
			defer in.pause.begin()()
		}
		done, err := add()
		if done || err != nil {
			return err
		}
	}
}
