package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

const mending = "a repair in place"

// Mended is what Mend has done to one collection.
type Mended struct {
	Identity Identity
	// Restored are the keys of records that have been written again from the objects in memory.
	Restored []string
	// Lost are the keys whose records are gone, in order: the server has to be asked.
	Lost []string
	// Unknown is how many records are missing beside them that nothing names.
	Unknown int
	// Indexes are those whose entries have been put right.
	Indexes []string

	// behind: durable handlers may have missed a delete.
	behind bool
}

func (m Mended) lost() bool { return len(m.Lost) > 0 || m.Unknown > 0 }

// Mend repairs the file where it stands, after ErrDamaged: single records that can not be read, or are not there although an index, the
// change feed or a resident object names them, and entries of indexes and the change feed that are not what the records say. Documents that are damaged are removed, and so is the record of the data keys, unless this process holds them. Nothing else is written anew, and readers go on meanwhile. It looks at
// every page and record for that.
//
// An object that is in memory (Residency All) is written again. One that is not is lost to the file, and so are those of which only
// the count tells: then Info.MustRelist is set, Collection.Losses has grown, and Collection.TakeLost has the keys. Once they are back, Collection.Resumable says so.
// Durable handlers of a collection that has lost objects, or what the tombstone of a delete that is pending would be made of, are told of every object again.
//
// An error that wraps ErrDamaged or ErrOutcomeUnknown says that it takes Rebuild: a page is damaged, the state of a collection, a dictionary, a tombstone, or too much. ErrNoSpace: try again
// later. If the store has not failed it does nothing and returns nil.
func (s *Store) Mend(ctx context.Context) ([]Mended, error) {
	mended, err := s.mend(ctx)
	if err != nil {
		return nil, fmt.Errorf("repair %s in place: %w", s.path, err)
	}
	if len(mended) > 0 {
		_ = s.Flush(ctx) // what could not be committed since the failure; CommitErr tells
	}
	return mended, nil
}

func (s *Store) mend(ctx context.Context) ([]Mended, error) {
	if s.readOnly() {
		return nil, ErrReadOnly
	}
	// What is pending must not be on its way into the file: it is counted anew.
	turn, err := s.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer turn()
	release, err := s.takeWriter(ctx, mending)
	if err != nil {
		return nil, err
	}
	defer release()
	why := s.Err()
	if why == nil {
		return nil, nil
	}
	if err := s.mendable(ctx, why); err != nil {
		return nil, err
	}
	all, err := s.findDamage(ctx)
	if err != nil {
		return nil, err
	}
	all = s.withHolesInMemory(ctx, all)
	mark, err := takeMark(ctx, s.path, time.Now().Add(s.o.lockTimeout()))
	if err != nil {
		return nil, err
	}
	mended, err := s.mendAll(ctx, all)
	s.tellLosses(mended) // of an attempt that failed too: the next one does not find them any more
	if err != nil {
		return nil, errors.Join(err, mark.release(), leaveMark(s.path))
	}
	if err := mark.release(); err != nil {
		s.logger().Error(err, "The mark beside the store could not be removed; the next process will verify the store")
	}
	s.healed(why, mended)
	return mended, nil
}

// mendable returns an error if the failure is not of a kind that can be repaired in place.
func (s *Store) mendable(ctx context.Context, why error) error {
	var fault *faultError
	if errors.Is(why, ErrOutcomeUnknown) || errors.As(why, &fault) {
		return why
	}
	problems, err := s.checkPages(ctx)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return pagesError(s.path, problems)
	}
	return nil
}

// withHolesInMemory adds the keys of resident objects of which there is no record, pending or not.
func (s *Store) withHolesInMemory(ctx context.Context, all []*damage) []*damage {
	for _, c := range s.liveCollections() {
		r := c.inMemory()
		if r == nil {
			continue
		}
		at := slices.IndexFunc(all, func(d *damage) bool { return d.name == c.name })
		if at < 0 {
			continue // its count is right, and nothing names more
		}
		//nolint:errcheck // what can not be read was found by others
		_ = c.view(ctx, func(b *bolt.Bucket) error {
			objects, err := c.objects(b)
			if err != nil {
				return err
			}
			for _, e := range r.rows() {
				if objects.Get([]byte(e.key)) == nil && c.overlay.get(e.key) == nil {
					all[at].hole(e.key)
				}
			}
			return nil
		})
	}
	return all
}

// mendAll repairs what was found, each collection in a transaction, and looks again. With an error it returns what it has done, or may have.
func (s *Store) mendAll(ctx context.Context, all []*damage) (mended []Mended, err error) {
	live := map[string]*Collection{}
	for _, c := range s.liveCollections() {
		live[c.name] = c
	}
	mended = []Mended{}
	for _, d := range all {
		if d.rebuild {
			return mended, fmt.Errorf("%w: too many objects are not there", ErrDamaged)
		}
		m, err := s.mendOne(ctx, d, live[d.name])
		if err == nil || errors.Is(err, ErrOutcomeUnknown) {
			mended = append(mended, m)
		}
		if err == nil {
			err = live[d.name].takeStock(ctx, d)
		}
		if err != nil {
			return mended, err
		}
	}
	why, err := s.damagedDataKeys(ctx)
	if err := errors.Join(err, why, s.mendDocuments(ctx)); err != nil { // Rebuild writes the keys anew
		return mended, err
	}
	left, err := s.findDamage(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%w: collection %s is not whole after a repair in place", ErrDamaged, left[0].name)
	}
	return mended, err
}

// takeStock makes what is in memory of a collection fit a file that has less than it had. It does nothing to one that is not open.
func (c *Collection) takeStock(ctx context.Context, d *damage) error {
	if c == nil {
		return nil
	}
	if len(d.missing()) > 0 || d.unknown() > 0 {
		c.forgetLost()
	}
	return c.recount(context.WithoutCancel(ctx))
}

// tellLosses tells who has lost something, and sets back the durable handlers that may have missed it.
func (s *Store) tellLosses(mended []Mended) {
	behind := map[string]bool{}
	s.mu.Lock()
	for _, m := range mended {
		if m.lost() {
			s.losses[m.Identity.ID()]++
			s.noteLostLocked(m)
		}
		behind[m.Identity.ID()] = m.behind
	}
	s.mu.Unlock()
	for _, c := range s.liveCollections() {
		if !behind[c.name] || !c.places.any() {
			continue
		}
		if err := c.beginAnew(context.Background()); err != nil {
			s.logger().Error(err, "Durable handlers could not be set back", "collection", c.id.String())
		}
	}
}

// healed ends the failure.
func (s *Store) healed(why error, mended []Mended) {
	s.mu.Lock()
	s.failure, s.failed = nil, make(chan struct{})
	s.mu.Unlock()
	for _, c := range s.liveCollections() {
		if c.resident.Load() != nil && c.inMemory() == nil {
			c.startFilling(false) // a record that was bad has kept the objects from being read
		}
		c.startBuild() // what gave up when the store failed
	}
	for _, m := range mended {
		s.logger().Error(why, "The store has been repaired in place", "collection", m.Identity.String(), "restoredFromMemory", len(m.Restored),
			"toBeFetched", len(m.Lost), "unknown", m.Unknown, "indexes", m.Indexes)
	}
}

// lostKeys is what a Mend has lost of a collection, until somebody takes it.
type lostKeys struct {
	keys    map[string]bool
	unknown int
}

func (s *Store) noteLostLocked(m Mended) {
	name := m.Identity.ID()
	have := s.lost[name]
	if have.keys == nil {
		have.keys = map[string]bool{}
	}
	for _, key := range m.Lost {
		have.keys[key] = true
	}
	have.unknown += m.Unknown
	s.lost[name] = have
}

// TakeLost returns, once, what Mend has lost of the collection, whoever called it: the keys in order, and how many others. It returns nothing for what
// Rebuild has lost: of that nobody knows the keys.
func (c *Collection) TakeLost() (keys []string, unknown int) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	lost := c.store.lost[c.name]
	delete(c.store.lost, c.name)
	return slices.Sorted(maps.Keys(lost.keys)), lost.unknown
}

// Resumable says that everything which was lost up to these Losses is back, so that the contents need not be listed. If more has been lost since it does
// nothing.
func (c *Collection) Resumable(ctx context.Context, losses int) error {
	if err := c.resumable(ctx, losses); err != nil {
		return fmt.Errorf("mark %s as whole: %w", c.id, err)
	}
	return nil
}

func (c *Collection) resumable(ctx context.Context, losses int) error {
	if err := c.store.Flush(ctx); err != nil { // what is back has to be in the file before
		return err
	}
	turn, err := c.store.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer turn()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replacing != nil {
		return ErrReplacing
	}
	whole := false
	err = c.writeLocked(ctx, nil, func(w *writer) error {
		whole = c.Losses() == losses // they grow where this is: in the writer's place
		if whole && w.state.MustRelist == MustRelistDamaged {
			w.state.MustRelist = ""
		}
		return nil
	})
	if err != nil || !whole {
		return err
	}
	c.front.Lock()
	defer c.front.Unlock()
	if info, unsaved := c.overlay.current(); unsaved && info.MustRelist == MustRelistDamaged {
		info.MustRelist = ""
		c.overlay.correct(info)
	}
	return nil
}
