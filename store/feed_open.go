package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// maxHandlerName is the maximum length of a durable handler's name, in bytes.
const maxHandlerName = 256

// Feed registers a durable handler, or continues the one of that name. It fails with ErrHandlerOpen if the handler is
// open, and with ErrClosed after Close. The first registration in a collection begins its changelog, which costs one
// more entry per write from then on.
func (c *Collection) Feed(ctx context.Context, name string) (*Feed, error) {
	if err := c.openFeed(ctx, name); err != nil {
		return nil, fmt.Errorf("durable handler %q of %s: %w", name, c.id, err)
	}
	return &Feed{c: c, name: name}, nil
}

func (c *Collection) openFeed(ctx context.Context, name string) error {
	if name == "" || len(name) > maxHandlerName {
		return fmt.Errorf("its name has %d bytes; 1 to %d can be stored", len(name), maxHandlerName)
	}
	if c.readOnly {
		return ErrReadOnly
	}
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	known, err := c.places.open(name)
	if known || err != nil {
		return err
	}
	var place Place
	err = c.writeLocked(ctx, func(w *writer) error {
		if err := w.beginFeed(); err != nil {
			return err
		}
		place = again(w.state.NextSeq, ResetNew)
		return putPlace(w.bucket.Bucket(format.BucketHandlers), c.name, name, place)
	})
	if err != nil {
		return err
	}
	c.places.add(name, place)
	return nil
}

// open opens the handler of that name, and returns whether there is one. It fails with ErrHandlerOpen if it is open.
func (p *places) open(name string) (known bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.all[name]
	switch {
	case p.closed: // the collection may have been opened again, with cursors of its own
		return false, fmt.Errorf("the collection has been closed: %w", ErrClosed)
	case h == nil:
		return false, nil
	case h.open:
		return true, ErrHandlerOpen
	}
	h.open = true
	return true, nil
}

func (p *places) add(name string, place Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]*placed{}
	}
	p.all[name] = &placed{place: place, open: true}
}

// ForgetHandler removes a durable handler: its cursor, and the tombstones that no other handler needs. It fails with
// ErrNoHandler if there is none of that name, with ErrHandlerOpen while it is registered, and with ErrClosed after
// Close. With the last handler the changelog is dropped, unless RetainChanges keeps it. Like Drop, ForgetHandler may
// grow the file past Options.MaxSize, by some pages that are free afterwards.
func (c *Collection) ForgetHandler(ctx context.Context, name string) error {
	if err := c.forgetHandler(ctx, name); err != nil {
		return fmt.Errorf("forget the durable handler %q of %s: %w", name, c.id, err)
	}
	return nil
}

func (c *Collection) forgetHandler(ctx context.Context, name string) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	// The handler is open meanwhile, so that it cannot be registered.
	known, err := c.places.open(name)
	if err == nil && !known {
		err = ErrNoHandler
	}
	if err != nil {
		return err
	}
	err = c.writeLockedFor(ctx, forgetting, func(w *writer) error {
		if delete(w.places.places, name); len(w.places.places) == 0 && w.state.retain == 0 {
			return w.endFeed()
		}
		return w.bucket.Bucket(format.BucketHandlers).Delete([]byte(name)) // later writes drop the tombstones
	})
	c.places.forget(name, err == nil)
	return err
}

// forget undoes open: it removes the handler if gone is true, and else lets it be opened again.
func (p *places) forget(name string, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gone {
		delete(p.all, name)
	} else {
		p.all[name].open = false
	}
}

// HandlerInfo is the state of a durable handler in the file.
type HandlerInfo struct {
	Name string
	Place
	// Behind is the maximum number of changes that the handler has not acknowledged. While it is Replaying, the objects
	// that it has yet to receive are not included.
	Behind uint64
}

// Handlers returns the durable handlers of the collection, in the order of their names, as of the last commit.
func (r *reader) Handlers(ctx context.Context) (infos []HandlerInfo, err error) {
	err = r.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, r.name)
		if err != nil {
			return err
		}
		handlers := b.Bucket(format.BucketHandlers)
		if handlers == nil {
			return nil
		}
		return handlers.ForEach(func(k, data []byte) error {
			place, err := parsePlace(r.name, string(k), data)
			infos = append(infos, HandlerInfo{Name: string(k), Place: place, Behind: st.NextSeq - 1 - place.Seq})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// Handlers returns the durable handlers of a collection, as Collection.Handlers does. The collection need not be open.
func (s *Store) Handlers(ctx context.Context, id entry.Identity) ([]HandlerInfo, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	r := reader{store: s, name: id.ID()}
	return r.Handlers(ctx)
}

// loadPlaces reads the cursors of the handlers. If a cursor is damaged the handler begins anew, and reading it has
// failed the store, as a damaged record does; loadPlaces returns nil, and a rebuild writes the cursors loaded here.
func (c *Collection) loadPlaces(ctx context.Context) error {
	var all map[string]Place
	var st state
	unfit := false
	err := c.view(ctx, func(b *bolt.Bucket) (err error) {
		if st, err = getState(b, c.name); err != nil {
			return err
		}
		all, err = getPlaces(b, c.name)
		unfit = (st.feedSince != 0) != (len(all) > 0 || st.retain > 0)
		return err
	})
	if err != nil && (!isDamaged(err) || all == nil) {
		return err
	}
	if unfit && !c.readOnly {
		err := c.update(ctx, func(tx *bolt.Tx) error {
			return updateState(tx, c.name, func(b *bolt.Bucket, st *state) error { return c.renewFeed(b, st, all) })
		})
		if err != nil {
			return err
		}
	}
	c.places.load(all, st.retain)
	return nil //nolint:nilerr // see above
}

// renewFeed drops the changelog, and begins a new one if it has consumers. It is for a changelog that has no consumers,
// or that a program which knows no changelog has not kept: then all handlers may have missed changes, and begin anew.
func (c *Collection) renewFeed(b *bolt.Bucket, st *state, all map[string]Place) error {
	if err := c.dropFeed(b); err != nil {
		return err
	}
	st.tombstones, st.feedSince, st.feedLacks = 0, 0, 0
	if len(all) > 0 || st.retain > 0 {
		st.breakFeed()
		st.feedSince = st.NextSeq
		if err := createFeed(b); err != nil {
			return err
		}
	}
	for name := range all {
		all[name] = again(st.NextSeq, ResetDamage)
		if err := putPlace(b.Bucket(format.BucketHandlers), c.name, name, all[name]); err != nil {
			return err
		}
	}
	return nil
}

// beginAnew makes all handlers begin anew, after objects or tombstones were lost.
func (c *Collection) beginAnew(ctx context.Context) error {
	info, err := c.reader.Info(ctx) // NextSeq of the new file
	if err == nil {
		c.places.setAllBack(info.NextSeq)
		c.store.commits.add(c, 0)
	}
	return err
}

// reviveFeed writes the registered handlers to the changelog of a new file. They keep their cursors, or begin anew if
// lost says that objects were lost.
func (c *Collection) reviveFeed(b *bolt.Bucket, st *state, lost bool) error {
	s := c.places.snapshot()
	if s == nil {
		return nil
	}
	st.retain = s.retain
	if err := createFeed(b); err != nil {
		return err
	}
	if st.feedSince == 0 {
		st.feedSince = st.NextSeq
	}
	for name, place := range s.places {
		if lost {
			place = again(st.NextSeq, ResetDamage)
		}
		if err := putPlace(b.Bucket(format.BucketHandlers), c.name, name, place); err != nil {
			return err
		}
	}
	return nil
}
