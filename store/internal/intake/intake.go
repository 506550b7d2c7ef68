package intake

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/compress"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/state"
)

// Intake is the half of a collection that receives batches (Apply) and lists (Begin). It keys, encodes and indexes the
// objects, finds out what they change, and passes the writes to Back, which holds the objects.
type Intake struct {
	ID      entry.Identity
	KeyFunc cache.KeyFunc
	Limits  Limits
	Back    Back // set before other goroutines use the collection, like the fields above
	// Codec encodes the objects; nil if they are in memory alone.
	Codec codec.Codec
	// History is given the changes of each batch, encoded by Codec unless a write says otherwise; nil if nobody keeps
	// them.
	History *history.Window

	// Indexing is held while indexes are built or added, which call index functions: these must not add others. Nothing
	// else takes it, so neither readers nor writers wait for it.
	Indexing patient.Mutex
	// Set holds the index functions. Writes that were indexed with another set are indexed again before they are put.
	Set atomic.Pointer[index.Set]
	// Front is held while writes are put into the back. Nobody waits for the disk while holding it.
	Front sync.Mutex
	// paused is closed at the end of the Pause; nil if there is none. Guarded by Front.
	paused chan struct{}
	// writes is how many were put; guarded by Front.
	writes uint64
	// replacing is the open replacement, or nil; guarded by Front.
	replacing *Replacement
	// unheard has the keys of objects that an earlier process stored from a list that did not end: nobody in this process
	// has been told of them. Only the open replacement uses it.
	unheard  map[string]struct{}
	reported atomic.Bool // true once changes of objects have been reported in this process
}

// Back is the other half of a collection, which holds the objects: in a file with a memtable over it, or in memory
// alone. Its methods do not call user code. Intake.Front may be held or not unless a method's comment says otherwise.
type Back interface {
	Info(ctx context.Context) (entry.Info, error)
	Keys(ctx context.Context) ([]string, error)
	// Encoder returns the encoder that prepares writes for the back. If set is nil it can only key them.
	Encoder(set *index.Set) Encoder
	// Compressor returns what compresses new records at their commit; nil if nothing does.
	Compressor() *compress.Compressor

	// Look calls fn with a consistent view of the objects.
	Look(ctx context.Context, fn func(h Held) error) error
	// BeforeBatch returns the current objects under the keys of the writes, and the Info, as of the last batch.
	BeforeBatch(ctx context.Context, writes []*memtable.Write) (map[string]*Pending, entry.Info, error)

	// Backpressure waits while too many bytes are dirty. If paced is true it also slows the caller to the pace of the
	// disk. Front must not be held.
	Backpressure(ctx context.Context, paced bool) error
	// TakesIn returns an error if Put can no longer be called. Front must be held.
	TakesIn() error
	// Put makes the writes, the last one of each key, and the Info visible to readers in one step. settles is not nil if
	// they end a list. also is called before readers can see them, and while those wait. Front must be held.
	Put(last []*memtable.Write, info entry.Info, settles *state.Settled, also func())

	// Losses grows whenever something that was put has been lost; see store.Collection.Losses.
	Losses() int
	// ListEnded is called when all of a list has been put. Front must not be held.
	ListEnded()
}

// MarkMustRelist sets Info.MustRelist to reason. It fails with ErrReplacing while a list is open.
func (in *Intake) MarkMustRelist(ctx context.Context, reason string) error {
	in.Front.Lock()
	defer in.Front.Unlock()
	if err := in.Back.TakesIn(); err != nil {
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
	in.Back.Put(nil, info, nil, func() {})
	return nil
}

// Indexers returns the index functions. The map is the caller's.
func (in *Intake) Indexers() cache.Indexers { return in.Set.Load().Funcs() }

// IndexFunc returns the index function of that name; the error wraps index.ErrNoIndex.
func (in *Intake) IndexFunc(name string) (cache.IndexFunc, error) { return in.Set.Load().Find(name) }

// KeyOf returns the key of an object.
func (in *Intake) KeyOf(obj any) (string, error) { return in.KeyFunc(obj) }

// Pause makes writers wait, under no lock, until resume is called. When Pause returns no write is under way. The caller
// holds Indexing.
func (in *Intake) Pause() (resume func()) {
	paused := make(chan struct{})
	set := func(to chan struct{}) {
		in.Front.Lock()
		in.paused = to
		in.Front.Unlock()
	}
	set(paused)
	return func() {
		set(nil)
		close(paused)
	}
}

// Limits bound how much a relist holds in memory and in one transaction, in encoded bytes.
type Limits struct {
	Held int // differences that a list holds back before it applies them page by page
	Step int // old and new objects that one call of Replacement.Commit applies
}
