package informer

import (
	"context"
	"sync"

	"github.com/larder-dev/larder/store"
)

// laterFeed is the feed of a handler that was registered while the store had no file. Until it has one, Place fails with store.ErrDetached, and Changed
// tells when it has.
type laterFeed struct {
	feeds fileFeeds
	name  string

	mu     sync.Mutex
	feed   *store.Feed // guarded by mu; nil until there is a file
	closed bool        // guarded by mu
}

// Place returns how far the handler has come.
func (f *laterFeed) Place() (place store.Place, resets int, err error) {
	feed, err := f.open()
	if err != nil {
		return store.Place{}, 0, err
	}
	return feed.Place()
}

func (f *laterFeed) open() (*store.Feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.feed != nil || f.closed {
		return f.openedLocked()
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	feed, err := f.feeds.Feed(ctx, f.name)
	if err != nil {
		return nil, err
	}
	f.feed = feed
	return feed, nil
}

func (f *laterFeed) openedLocked() (*store.Feed, error) {
	if f.feed == nil {
		return nil, store.ErrClosed
	}
	return f.feed, nil
}

// opened returns the feed once Place has.
func (f *laterFeed) opened() (*store.Feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.feed == nil && !f.closed {
		return nil, store.ErrDetached
	}
	return f.openedLocked()
}

// Acknowledge is store.Feed's.
func (f *laterFeed) Acknowledge(place store.Place, resets int) error {
	feed, err := f.opened()
	if err != nil {
		return err
	}
	return feed.Acknowledge(place, resets)
}

// Read is store.Feed's.
func (f *laterFeed) Read(ctx context.Context, after uint64) (store.FeedPage, error) {
	feed, err := f.opened()
	if err != nil {
		return store.FeedPage{}, err
	}
	return feed.Read(ctx, after)
}

// Objects is store.Feed's.
func (f *laterFeed) Objects(ctx context.Context, after string, upTo uint64) (p store.FeedPage, end string, err error) {
	feed, err := f.opened()
	if err != nil {
		return p, "", err
	}
	return feed.Objects(ctx, after, upTo)
}

// Failing is store.Feed's.
func (f *laterFeed) Failing(ctx context.Context, keys map[string]uint64, upTo uint64) (store.FeedPage, error) {
	feed, err := f.opened()
	if err != nil {
		return store.FeedPage{}, err
	}
	return feed.Failing(ctx, keys, upTo)
}

// Changed is store.Feed's, and before there is a file it is closed when there is.
func (f *laterFeed) Changed() <-chan struct{} {
	feed, err := f.opened()
	if err != nil {
		return f.feeds.Attached()
	}
	return feed.Changed()
}

// Close gives the name free.
func (f *laterFeed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.feed != nil {
		f.feed.Close()
	}
}
