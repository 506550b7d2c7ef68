package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// Indexers returns the index functions. The caller owns the map.
func (in *Intake) Indexers() cache.Indexers { return in.Set.Load().Funcs() }

// IndexFunc returns the index function of this name. The error wraps ErrNoIndex.
func (in *Intake) IndexFunc(name string) (cache.IndexFunc, error) { return in.Set.Load().Find(name) }

// KeyOf returns the key of an object.
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

// refusal is the error for which an object is left out of the collection.
type refusal struct {
	reason entry.LeftOutReason
	err    error // err is nil if the caller refused the object and has reported it.
}

func (r *refusal) Error() string {
	if r.err == nil {
		return "refused: " + string(r.reason)
	}
	return r.err.Error()
}

func (r *refusal) Unwrap() error { return r.err }

func refuse(reason entry.LeftOutReason, err error) error { return &refusal{reason, err} }

// leftOutOf returns the LeftOut entry of x, which was refused with err. Its Key is "" if x has no key.
func leftOutOf(x *Write, err error) entry.LeftOut {
	l := entry.LeftOut{ObjectRef: entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV},
		Reason: entry.LeftOutCodec}
	if r := (*refusal)(nil); errors.As(err, &r) {
		l.Reason = r.reason
	}
	return l
}

// reportable reports whether the caller must learn of a skipped object: a caller knows of its own refusals.
func reportable(err error) bool {
	r := (*refusal)(nil)
	return !errors.As(err, &r) || r.err != nil
}

// leaveOut adds a refused object to Info.LeftOut. It does not modify the old slice, which readers share.
func leaveOut(i *entry.Info, l entry.LeftOut) {
	at, found := findLeftOut(i, l.Key)
	switch {
	case l.Key == "" || !found && len(i.LeftOut) >= entry.MaxLeftOut:
		i.LeftOutMore = true
	case found:
		i.LeftOut = slices.Clone(i.LeftOut)
		i.LeftOut[at] = l
	default:
		i.LeftOut = slices.Insert(slices.Clip(i.LeftOut), at, l)
	}
}

// removeLeftOut removes an object from Info.LeftOut. It does not modify the old slice, which readers share.
func removeLeftOut(i *entry.Info, key string) {
	if at, found := findLeftOut(i, key); found {
		i.LeftOut = slices.Concat(i.LeftOut[:at], i.LeftOut[at+1:])
	}
}

func findLeftOut(i *entry.Info, key string) (at int, found bool) {
	return slices.BinarySearchFunc(i.LeftOut, key,
		func(l entry.LeftOut, key string) int { return strings.Compare(l.Key, key) })
}

func mayLack(i *entry.Info, key string) bool {
	_, found := findLeftOut(i, key)
	return found || i.LeftOutMore
}

// noteBatch removes the objects that a batch wrote from Info.LeftOut, the list of refused objects, and adds the objects
// that it left out. It removes the latter from Newest: the server has newer states of them, so the rewind check would
// report a rewind.
func noteBatch(i *entry.Info, last []*Write, e encoded) {
	for _, x := range last {
		removeLeftOut(i, x.Key)
	}
	for _, l := range e.leftOut {
		leaveOut(i, l)
		if l.Key != "" {
			i.Newest = slices.DeleteFunc(slices.Clone(i.Newest), func(r entry.ObjectRef) bool { return r.Key == l.Key })
		}
	}
}

// refused collects the objects that a list has left out because they could not be stored.
type refused struct {
	objects map[string]entry.LeftOut // objects are the refused objects, by key.
	gone    map[string]string        // gone has the resourceVersions of the delete events during the list, by key.
	unkeyed bool                     // unkeyed is true if an object without a key was left out.
}

func (r *refused) leaveOut(l entry.LeftOut) {
	if l.Key == "" {
		r.unkeyed = true
		return
	}
	if r.objects == nil {
		r.objects = map[string]entry.LeftOut{}
	}
	if have, ok := r.objects[l.Key]; !ok || !entry.NewerRV(have.ResourceVersion, l.ResourceVersion) {
		r.objects[l.Key] = l
	}
}

func (r *refused) isLeftOut(key, rv string) bool {
	l, ok := r.objects[key]
	return ok && l.ResourceVersion == rv
}

func (r *refused) noteGone(x *Write) {
	if r.gone == nil {
		r.gone = map[string]string{}
	}
	r.gone[x.Key] = x.RV
}

// finish sets LeftOut to the objects that a complete list left out. held returns the final state of an object, and
// finish fails if held does. A list that does not rewrite keeps an older entry if the stored object is still in the
// very state that was left out, since the list has not tried to store that state.
func (r *refused) finish(
	info *entry.Info, rewrites bool, held func(key string) (ref entry.ObjectRef, found bool, err error),
) error {
	before, more := info.LeftOut, info.LeftOutMore && !rewrites
	info.LeftOut, info.LeftOutMore = nil, more || r.unkeyed
	if !rewrites {
		for _, l := range before {
			if ref, found, err := held(l.Key); err != nil {
				return err
			} else if found && ref == l.ObjectRef {
				leaveOut(info, l)
			}
		}
	}
	for _, l := range r.objects {
		ref, found, err := held(l.Key)
		rv, gone := r.gone[l.Key]
		switch {
		case err != nil:
			return err
		case found && entry.NewerRV(ref.ResourceVersion, l.ResourceVersion), !found && gone &&
			entry.NewerRV(rv, l.ResourceVersion):
		case found && !rewrites && ref == l.ObjectRef: // An event has stored the refused state.
		default:
			leaveOut(info, l)
		}
	}
	return nil
}
