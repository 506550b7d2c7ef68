package store

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// intake is the half of a collection that takes in batches (Apply) and lists (BeginReplace): it keys, encodes and
// indexes what it is given, finds out what that changes, and hands it to the back, which holds the objects. It is the
// same for a Collection and a Memory.
type intake struct {
	id      entry.Identity
	keyFunc cache.KeyFunc
	limits  limits
	back    back // set before there is another goroutine, like the fields above

	// set is the index functions. What was indexed with others is indexed again before it is taken in.
	set atomic.Pointer[indexSet]
	// front is held while something is taken in, which waits for no disk.
	front sync.Mutex
	// replacing is the open replacement, or nil; guarded by front.
	replacing *replacement
	// unheard are the keys of what an earlier process has stored of a list that did not end: nobody in this process has
	// been told of them. Only the open replacement uses it.
	unheard  map[string]struct{}
	reported atomic.Bool // changes of objects have been reported in this process

	pause pause // of those who write, taken before any lock

	// hot finds the objects in memory while reads are to use them, for those who count nanoseconds.
	hot atomic.Pointer[resident.KeyMap]
}

// back is the other half of a collection, which holds the objects: in a file with a memtable over it (Collection), or
// in memory alone (Memory). Its methods call no code of the user. Those that do not say otherwise may be
// called with front held or not.
type back interface {
	Info(ctx context.Context) (Info, error)
	Keys(ctx context.Context) ([]string, error)
	// encoder returns what prepares writes for the back. Without index functions it can key them.
	encoder(set *indexSet) encoder

	// look calls fn with what is held at one moment.
	look(ctx context.Context, fn func(h held) error) error
	// beforeBatch returns what there is under the keys of the writes, and the Info, as of the last batch.
	beforeBatch(ctx context.Context, writes []*memtable.Write) (map[string]*pending, Info, error)

	// waitRoom waits while too much has been put that has not reached the disk; paced, also for a slow disk to follow.
	// front is not held.
	waitRoom(ctx context.Context, paced bool) error
	// takesIn returns why nothing can be put any more. front is held.
	takesIn() error
	// put has readers see the writes, the last one of each key, and the Info after them, all at once. settles is set if
	// with them a list has ended. front is held.
	put(last []*memtable.Write, info Info, settles *settled)

	// losses grows when something that was put has been lost; see Collection.Losses.
	losses() int
	// listEnded is told that all of a list has been put. front is not held.
	listEnded()
}

// lockFront takes front for writes whose terms were made with set, unless nothing can be taken in.
func (in *intake) lockFront(ctx context.Context, set *indexSet) (unlock func(), err error) {
	if err := in.pause.wait(ctx); err != nil {
		return nil, err
	}
	in.front.Lock()
	switch err = in.back.takesIn(); {
	case err != nil:
	case set.generation != in.set.Load().generation:
		err = errIndexesChanged
	default:
		return in.front.Unlock, nil
	}
	in.front.Unlock()
	return nil, err
}

// takeIn takes in what a list changes, with the Info that finish, which may be nil, makes of the one after it. It waits
// while too much waits for the disk, and for no write.
func (in *intake) takeIn(
	ctx context.Context, r *replacement, set *indexSet, last []*memtable.Write, finish func(*Info) (*settled, error),
) error {
	if err := in.back.waitRoom(ctx, false); err != nil {
		return err
	}
	unlock, err := in.lockFront(ctx, set)
	if err != nil {
		return err
	}
	defer unlock()
	found, info, err := in.beforeWrites(ctx, last)
	if err != nil {
		return err
	}
	if err := r.usable(); err != nil { // what a rebuild has lost meanwhile, its recount corrects in what is pending now
		return err
	}
	for _, x := range last {
		info.take(x, found[x.Key])
	}
	var settles *settled
	if finish != nil {
		if settles, err = finish(&info); err != nil {
			return err
		}
	}
	in.reported.Store(true)
	for _, x := range last {
		delete(in.unheard, x.Key)
	}
	in.back.put(last, info, settles)
	return nil
}

// beforeWrites returns which of the writes' keys there are, and the Info, as of now.
func (in *intake) beforeWrites(
	ctx context.Context, writes []*memtable.Write,
) (found map[string]bool, info Info, err error) {
	found = make(map[string]bool, len(writes))
	err = in.back.look(ctx, func(h held) (err error) {
		info, err = h.info()
		for _, x := range writes {
			found[x.Key] = h.has(x.Key)
		}
		return err
	})
	return found, info.clone(), err
}

// markMustRelist notes why what is held cannot be resumed.
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
func (in *intake) Indexers() cache.Indexers { return maps.Clone(in.set.Load().funcs) }

func (in *intake) indexFunc(index string) (cache.IndexFunc, error) { return in.set.Load().find(index) }

func (in *intake) keyOf(obj any) (string, error) { return in.keyFunc(obj) }

// patience is how often AddIndexers computes what has changed meanwhile before it has those who write wait.
const patience = 3

// untilAdded calls add until it has added index functions. It cannot as long as something has been taken in since it
// computed their terms, under no lock.
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
