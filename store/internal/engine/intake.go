package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/crypt"
)

// Intake is the part of a collection that receives batches (Apply) and lists (Begin).
type Intake struct {
	ID      entry.Identity
	KeyFunc cache.KeyFunc
	Limits  ReplaceLimits
	Back    Back // Back must be set before other goroutines use the collection.
	// Codec encodes the objects; nil for a collection in memory only.
	Codec codec.Codec
	// History receives the changes of each batch. Codec encodes their objects, unless a write has another encoding.
	// History is nil if no history is kept.
	History *history.Window

	// Indexing is held while indexes are built or added. Index functions are called meanwhile, so an index function must
	// not add indexes. Reads and writes do not take Indexing, so they do not wait for it.
	Indexing base.Mutex
	// Set holds the index functions. Writes with index terms of another set are indexed anew before the put.
	Set atomic.Pointer[IndexSet]
	// Front is held while writes are put into Back. No goroutine waits for the disk while it holds Front.
	Front sync.Mutex
	// paused is closed at the end of a Pause, and otherwise nil. Front guards paused.
	paused chan struct{}
	// writes is the number of writes put so far, which numbers the next write. Front guards writes.
	writes uint64
	// replacing is the open replacement, or nil. Front guards replacing.
	replacing *Replacement
	// unreported holds the keys of objects that an earlier process stored from a list that did not end, and that this
	// process has not reported to handlers. Only the open replacement uses unreported.
	unreported map[string]struct{}
	reported   atomic.Bool // reported is true once this process has reported changes of objects.
}

// Back is the part of a collection that holds the objects: in a file with a memtable, or only in memory. Its methods do
// not call user code. They may be called with or without Intake.Front held, unless a method's comment says otherwise.
type Back interface {
	Info(ctx context.Context) (entry.Info, error)
	Keys(ctx context.Context) ([]string, error)
	// Encoder returns the encoder that prepares writes for the Back. With a nil set it can only compute keys.
	Encoder(set *IndexSet) Encoder
	// Compressor returns the compressor of new records, or nil.
	Compressor() *crypt.Compressor

	Look(ctx context.Context, fn func(h Held) error) error
	// BeforeBatch returns the current objects under the keys of the writes, and the Info, as of the last batch.
	BeforeBatch(ctx context.Context, writes []*Write) (map[string]*Pending, entry.Info, error)

	// Backpressure waits while too many bytes are uncommitted. If paced is true, it also slows the caller to the speed of
	// the disk. Front must not be held.
	Backpressure(ctx context.Context, paced bool) error
	// CheckOpen returns an error if Put can no longer be called. Front must be held.
	CheckOpen() error
	// Put makes the writes, at most one per key, and the Info visible to readers in one step. ended is not nil for the
	// last writes of a list. Put calls the function also before the writes are visible; in a collection with a history,
	// readers are blocked meanwhile. Front must be held.
	Put(last []*Write, info entry.Info, ended *EndedList, also func())

	// Losses grows whenever a write that was put has been lost; see store.Collection.Losses.
	Losses() int
	// ListEnded is called after all writes of a list have been put. Intake.Front must not be held.
	ListEnded()
}

// MarkMustRelist sets Info.MustRelist to reason. It fails with ErrReplacing while a list is open.
func (in *Intake) MarkMustRelist(ctx context.Context, reason string) error {
	in.Front.Lock()
	defer in.Front.Unlock()
	if err := in.Back.CheckOpen(); err != nil {
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

func (in *Intake) Indexers() cache.Indexers { return in.Set.Load().Funcs() }

func (in *Intake) IndexFunc(name string) (cache.IndexFunc, error) { return in.Set.Load().Find(name) }

func (in *Intake) KeyOf(obj any) (string, error) { return in.KeyFunc(obj) }

// Pause blocks writers, without holding a lock, until the caller calls resume. When Pause returns, no write is running.
// The caller holds Indexing.
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

// ReplaceLimits bound the memory and the transactions of a relist, in encoded bytes.
type ReplaceLimits struct {
	Held int // Held is the size of the differences that a list holds before it applies them page by page.
	Step int // Step is the size of the old and new objects that one call of Replacement.Commit applies.
}
