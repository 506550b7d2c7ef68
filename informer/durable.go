package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// Change is what has become of one object, as a DurableHandler is told. Objects are shared and must not be modified.
type Change = store.FeedChange

// What a Change is.
const (
	// Upsert: the object is there, new or changed. Object is its last state.
	Upsert = store.Upsert
	// Delete: the object with that UID is gone. Object is its last known state; nil if this program can not decode it.
	Delete = store.Delete
)

// ResetReason is why a durable handler is told of every object.
type ResetReason = store.ResetReason

// The reasons; see package store.
const (
	ResetNew    = store.ResetNew
	ResetBehind = store.ResetBehind
	ResetDamage = store.ResetDamage
)

// DurableHandler is told of changes, and keeps its place over restarts: see AddDurableHandler. Its methods are called one at a time. Each
// has to return when ctx ends, which is at the end of the run; what it has not returned nil for by then comes again.
type DurableHandler interface {
	// OnChange is told of a change, and acknowledges it by nil. After an error, or a panic, it is told again with a back-off, from 0.1 s doubled
	// up to a minute, and of nothing else of that key before that; changes of the key that follow take the place of an Upsert of the same object.
	OnChange(ctx context.Context, c Change) error
	// OnReset is told that every object will be told now, because it is new or because it may have missed something, deletes too: whoever
	// keeps what he was told has to look, at OnReplayed, for what is no longer there. It is called until it returns nil. A restart in
	// between goes on with the objects, without another OnReset.
	OnReset(ctx context.Context, why ResetReason) error
	// OnReplayed is told that every object has been told since OnReset, or was changed and will be. It is called until it returns nil.
	OnReplayed(ctx context.Context) error
}

// DurableHandlerFuncs are a DurableHandler; what is nil does nothing.
type DurableHandlerFuncs struct {
	ChangeFunc   func(ctx context.Context, c Change) error
	ResetFunc    func(ctx context.Context, why ResetReason) error
	ReplayedFunc func(ctx context.Context) error
}

// OnChange calls ChangeFunc.
func (f DurableHandlerFuncs) OnChange(ctx context.Context, c Change) error {
	if f.ChangeFunc == nil {
		return nil
	}
	return f.ChangeFunc(ctx, c)
}

// OnReset calls ResetFunc.
func (f DurableHandlerFuncs) OnReset(ctx context.Context, why ResetReason) error {
	if f.ResetFunc == nil {
		return nil
	}
	return f.ResetFunc(ctx, why)
}

// OnReplayed calls ReplayedFunc.
func (f DurableHandlerFuncs) OnReplayed(ctx context.Context) error {
	if f.ReplayedFunc == nil {
		return nil
	}
	return f.ReplayedFunc(ctx)
}

// ErrNotDurable: the objects of the informer are in memory only, so nothing can be kept over a restart.
var ErrNotDurable = errors.New("the objects are in memory only, and a durable handler needs a file")

// AddDurableHandler registers a handler under a name. While the informer runs it is told of what has been committed: at first of every
// object, and after a restart of what has changed since its last acknowledged change and nothing else, deletes too. Changes of one key come in order, at least
// once; of a live object the last state only. An object that is deleted and created again under its name comes as Delete and Upsert, with
// two UIDs; one that came and went within one commit does not come. What is acknowledged is in the file after the next commit.
//
// A handler has a goroutine of its own and holds up nobody. Up to 1,000 keys may fail, or wait to be told again, while others go on, and of one key 100 changes; from there on
// it stalls, and Status.Durable says so. The place of a handler that is not registered any more is kept, and with it a tombstone of each object
// that is deleted, up to 100,000 of them and for a week in which the store is open; a handler that has not passed one which is dropped begins anew (OnReset). ForgetHandler frees it.
//
// It fails with ErrNotDurable if the objects are in memory only, with store.ErrHandlerOpen if a handler of that name is registered,
// and with store.ErrNoSpace if the file is full and the handler is new.
func (i *Informer) AddDurableHandler(name string, handler DurableHandler) (cache.ResourceEventHandlerRegistration, error) {
	d, err := i.newDurable(name, &callHandler{handler: handler})
	if err != nil {
		return nil, i.notAdded(name, err)
	}
	i.durables.begin(d)
	return d, nil
}

func (i *Informer) notAdded(name string, err error) error {
	return fmt.Errorf("durable handler %q was not added to the informer on %s: %w", name, i.o.Identity.GroupResource(), err)
}

// newDurable registers a handler, which is told of nothing before durables.begin.
func (i *Informer) newDurable(name string, handler offerer) (*durable, error) {
	if i.feeds == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotDurable, i.volatile)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	feed, err := i.feeds.open(ctx, name, handler.queues())
	if err != nil {
		return nil, err
	}
	place, _, err := feed.Place()
	if err != nil {
		feed.Close()
		return nil, err
	}
	d := &durable{
		informer: i, name: name, handler: handler, feed: feed, now: statusAt(place),
		answered: make(chan struct{}, 1), synced: make(chan struct{}), done: make(chan struct{}),
	}
	if err := i.durables.add(d); err != nil {
		feed.Close()
		return nil, err
	}
	return d, nil
}

// ForgetHandler frees what is kept for a durable handler: its place and the tombstones that only it needs. It fails with
// store.ErrHandlerOpen while the handler is registered, and with store.ErrNoHandler if there is none of that name.
func (i *Informer) ForgetHandler(ctx context.Context, name string) error {
	if i.feeds == nil {
		return fmt.Errorf("forget the durable handler %q: %w", name, store.ErrNoHandler)
	}
	return i.feeds.ForgetHandler(ctx, name)
}

// RetainChanges keeps what has changed for readers of the file, for so long: see store.Collection.RetainChanges and store.View.Changes.
// 0 ends it. It stays so over restarts. It fails with ErrNotDurable if the objects are in memory only.
func (i *Informer) RetainChanges(ctx context.Context, keep time.Duration) error {
	switch {
	case i.feeds != nil:
		return i.feeds.RetainChanges(ctx, keep)
	case keep != 0:
		return fmt.Errorf("keep the changes of %s: %w: %s", i.o.Identity.GroupResource(), ErrNotDurable, i.volatile)
	}
	return nil
}

// feeds is what an informer needs of a collection for durable handlers.
type feeds interface {
	open(ctx context.Context, name string, keysOnly bool) (feed, error)
	ForgetHandler(ctx context.Context, name string) error
	RetainChanges(ctx context.Context, keep time.Duration) error
}

// feed is what a durable handler needs of a *store.Feed.
type feed interface {
	Place() (place store.Place, resets int, err error)
	Acknowledge(place store.Place, resets int) error
	Read(ctx context.Context, after uint64) (store.FeedPage, error)
	Objects(ctx context.Context, after string, upTo uint64) (p store.FeedPage, end string, err error)
	Failing(ctx context.Context, keys map[string]uint64, upTo uint64) (store.FeedPage, error)
	Load(ctx context.Context, c store.FeedChange) (store.FeedPage, error)
	Changed() <-chan struct{}
	Close()
}

// fileFeeds are those of a collection in a file.
type fileFeeds struct{ *store.Collection }

func (f fileFeeds) open(ctx context.Context, name string, keysOnly bool) (feed, error) {
	opened, err := f.Feed(ctx, name)
	if err == nil && keysOnly {
		opened = opened.KeysOnly()
	}
	return opened, err
}
