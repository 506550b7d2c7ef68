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
