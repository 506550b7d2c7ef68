package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// errNotYet: the file is free, and is to be taken over later.
var errNotYet = errors.New("the file is free, and is taken over soon")

// attachPatience is how long the file, once it is free and as long as nobody else takes it, is left alone for first lists that are being taken in: while one is, the file may have the collection whole and memory has not. A list
// that never ends must not keep everything else from the file.
const attachPatience = 5 * time.Minute

// attachment is the taking over of the file by a store that is in memory. It
//
//  1. opens the file as Open does, as a store of its own: nobody else can from here on,
//  2. holds up commits, lists and the opening of collections; reads go on, and so does Apply, which goes into the overlays,
//  3. brings what each open collection has in memory into the file: see merging. One that has nothing yet is to get what the file has,
//  4. exchanges the two, as Rebuild does. What is in the overlays is over the same contents as before, and committed to the file next.
//
// If any of it fails the file is closed again, each collection as the other process has left it or as it is in memory, and all goes on in memory.
type attachment struct {
	s    *Store
	file *Store
	held []*Collection
	// merged and adopted are the collections that had something in memory, and that had not, with what they are in the file.
	merged, adopted []taken
	// older are those of which durable handlers, or readers of changes, know something newer than memory has.
	older []*Collection
	// lost are the names of those of which a list was being taken in that can not go on.
	lost []string
}

// taken is a collection and what it is in the file.
type taken struct {
	c    *Collection
	file *Collection
	// set is that of the indexes as the file has them, and whole is whether it has a whole state; of adopted ones.
	set   *indexSet
	whole bool
	// fill is what is to be the decoded objects; nil if they stay.
	fill *resident
}

// attach takes the file over, or returns why not.
func (s *Store) attach(ctx context.Context) error {
	patient := s.detached.patient()
	if err := s.listing(ctx, patient); err != nil {
		return err
	}
	_ = s.Flush(ctx) // less is older than in the file then; what it can not write stays pending
	file := newStore(s.path, s.o)
	err := file.fetchKeys(ctx)
	if err == nil {
		err = file.openToWrite(ctx, time.Now())
	}
	s.noteQuarantined(file)
	if err != nil {
		return err
	}
	a := &attachment{s: s, file: file}
	err = a.run(ctx, patient)
	if isDamaged(err) && file.Err() != nil && file.Rebuild(ctx) == nil {
		s.noteQuarantined(file)
		a.merged, a.adopted, a.older, a.lost = nil, nil, nil, nil
		err = a.run(ctx, patient) // what the file has lost is in memory
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

func (s *Store) noteQuarantined(file *Store) {
	if name := file.Quarantined(); name != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.quarantined = name
	}
}

// listing returns an error while a first list is being taken in.
func (s *Store) listing(ctx context.Context, patient bool) error {
	for _, c := range s.liveCollections() {
		begun, _, err := c.hasBegun(ctx)
		if err != nil {
			return err
		}
		if begun && patient {
			return fmt.Errorf("%w: the first list of %s is being taken in", errNotYet, c.id)
		}
	}
	return nil
}

// hasBegun reports whether a first list is being taken in, or was, and whether there is anything of the collection in memory.
func (c *Collection) hasBegun(ctx context.Context) (begun, anything bool, err error) {
	info, err := c.reader.Info(ctx)
	if err != nil || info.Complete {
		return false, true, err
	}
	_, unsaved := c.overlay.current()
	c.front.Lock()
	defer c.front.Unlock()
	anything = info.Objects > 0 || unsaved || c.reported.Load()
	return anything || c.replacing != nil, anything, nil
}

// run does the work. What is held up goes on when it returns.
func (a *attachment) run(ctx context.Context, patient bool) error {
	release, err := a.hold(ctx)
	if err != nil {
		return err
	}
	err = a.bring(ctx, patient)
	var old *handle
	if err == nil {
		old, err = a.exchange(ctx)
	}
	release()
	if err != nil {
		return err
	}
	a.goOn()
	if err := old.close(); err != nil {
		a.s.logger().Error(err, "The memory that the store was in could not be given back")
	}
	return nil
}

// hold keeps everybody from writing but by the overlays, and remembers the collections that are open.
func (a *attachment) hold(ctx context.Context) (release func(), err error) {
	s := a.s
	turn, err := s.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	a.held = s.liveCollections()
	slices.SortFunc(a.held, func(x, y *Collection) int { return cmp.Compare(x.name, y.name) })
	for _, c := range a.held {
		c.mu.Lock()
	}
	free := func() {
		for _, c := range a.held {
			c.mu.Unlock()
		}
		turn()
	}
	place, err := s.takeWriter(ctx, attaching)
	if err != nil {
		free()
		return nil, err
	}
	s.setExchanging(true)
	release = func() {
		s.setExchanging(false)
		place()
		free()
	}
	for _, c := range s.liveCollections() {
		if !slices.Contains(a.held, c) {
			release()
			return nil, fmt.Errorf("%w: collections are being opened", errNotYet)
		}
	}
	return release, nil
}

// bring makes the collections of the file what they are in memory, and the other way round where there is nothing in memory.
func (a *attachment) bring(ctx context.Context, patient bool) error {
	if err := a.notOlder(ctx, patient); err != nil {
		return err
	}
	for _, c := range a.held {
		begun, anything, err := c.hasBegun(ctx)
		switch {
		case err != nil:
			return err
		case begun && patient:
			return fmt.Errorf("%w: the first list of %s is being taken in", errNotYet, c.id)
		case anything:
			err = a.merge(ctx, c)
		default:
			err = a.prepare(ctx, c)
		}
		if err != nil {
			return fmt.Errorf("bring %s into the file: %w", c.id, err)
		}
	}
	return a.documents(ctx)
}

// notOlder returns an error while what memory has of a collection is older than what the file has, and durable handlers, or readers of changes, know of that: they would be told that what is new is gone.
func (a *attachment) notOlder(ctx context.Context, patient bool) error {
	for _, c := range a.held {
		older, err := a.isOlder(ctx, c)
		switch {
		case err != nil:
			return fmt.Errorf("compare %s with the file: %w", c.id, err)
		case older && patient:
			return fmt.Errorf("%w: it has %s as of a newer resourceVersion than memory", errNotYet, c.id)
		case older:
			a.older = append(a.older, c)
		}
	}
	return nil
}

// isOlder reports that of one collection, or that memory has a part of it only.
func (a *attachment) isOlder(ctx context.Context, c *Collection) (bool, error) {
	file := reader{store: a.file, name: c.name}
	was, err := file.Info(ctx)
	if errors.Is(err, ErrNoCollection) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	handlers, err := file.Handlers(ctx)
	kept, failed := file.Kept(ctx)
	if err = errors.Join(err, failed); err != nil || len(handlers) == 0 && kept.For == 0 {
		return false, err
	}
	var now state
	err = c.view(ctx, func(b *bolt.Bucket) (err error) { // without what is pending
		now, err = getState(b, c.name)
		return err
	})
	if !now.Complete {
		_, anything, failed := c.hasBegun(ctx)
		return was.Complete && anything, errors.Join(err, failed)
	}
	return now.Attributes.ClusterID == was.Attributes.ClusterID && newerRV(was.ResourceVersion, now.ResourceVersion), err
}

// inFile returns what c is in the file, with its buckets and the places of its durable handlers.
func (a *attachment) inFile(ctx context.Context, c *Collection) (*Collection, error) {
	f := &Collection{
		reader: reader{store: a.file, name: c.name, codec: c.codec, overlay: newOverlay(), customKeys: c.customKeys},
		id:     c.id, keyFunc: c.keyFunc, resource: c.resource, limits: c.limits, packer: c.packer,
	}
	f.set.Store(c.set.Load())
	f.mustSeal = c.sealing.Load()
	if err := f.unseal(ctx); err != nil {
		return nil, err
	}
	c.sealing.Store(f.sealing.Load())
	left, err := f.needsBuckets(ctx)
	if err == nil && left {
		err = f.update(ctx, f.ensureBuckets)
	}
	if err == nil {
		err = f.loadPlaces(ctx)
	}
	return f, err
}

// prepare makes the file ready to be read for a collection of which nothing is in memory.
func (a *attachment) prepare(ctx context.Context, c *Collection) error {
	f, err := a.inFile(ctx, c)
	if err != nil {
		return err
	}
	set, err := f.claimInFile(ctx, c.set.Load().withNoneReady())
	if err != nil {
		return err
	}
	info, err := f.reader.Info(ctx)
	if err != nil {
		return err
	}
	a.adopted = append(a.adopted, taken{c: c, file: f, set: set, whole: info.Complete})
	return nil
}

// documents brings what the program keeps beside collections into the file.
func (a *attachment) documents(ctx context.Context) error {
	var entries []entry
	err := a.s.view(ctx, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketDocuments)
		if b == nil {
			return nil
		}
		return b.ForEach(func(name, data []byte) error {
			entries = append(entries, entry{slices.Clone(name), slices.Clone(data)})
			return nil
		})
	})
	if err != nil || len(entries) == 0 {
		return err
	}
	return a.file.update(ctx, func(tx *bolt.Tx) error { return putDocuments(tx, entries) })
}

// exchange puts the file in the place of the one in memory, which it returns.
func (a *attachment) exchange(ctx context.Context) (old *handle, err error) {
	for _, t := range a.adopted {
		t.c.front.Lock()
		defer t.c.front.Unlock()
		if _, unsaved := t.c.overlay.current(); unsaved {
			return nil, fmt.Errorf("%w: %s has got something meanwhile", errNotYet, t.c.id)
		}
	}
	if err := a.file.Err(); err != nil {
		return nil, err
	}
	a.refillMerged()
	for i := range a.adopted {
		t := &a.adopted[i]
		t.c.set.Store(t.c.set.Load().withNoneReady()) // until look-ups are of the file
		if t.c.resident.Load() != nil {
			t.fill = t.c.beginFillingLocked()
		}
		if t.c.replacing != nil {
			a.lost = append(a.lost, t.c.name)
		}
	}
	old = a.swap()
	for _, t := range append(slices.Clone(a.merged), a.adopted...) {
		t.c.places.take(&t.file.places)
	}
	for _, t := range a.adopted {
		t.c.adopt(ctx, t.set)
	}
	return old, nil
}

// refillMerged has what is decoded read anew if memory has failed: a write whose outcome was unknown may be there, and now in the file, and not in it.
func (a *attachment) refillMerged() {
	if a.s.Err() == nil {
		return
	}
	for i := range a.merged {
		if t := &a.merged[i]; t.c.resident.Load() != nil {
			t.c.front.Lock()
			t.fill = t.c.beginFillingLocked()
			t.c.front.Unlock()
		}
	}
}

// swap exchanges the handles.
func (a *attachment) swap() (old *handle) {
	s, f := a.s, a.file
	f.mu.Lock()
	h := f.handle
	f.handle = nil
	f.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	old = s.handle
	old.written.Store(0) // not to the disk
	s.takeIntoUseLocked(h)
	s.written += f.written
	s.rebuilds++
	for _, name := range a.lost {
		s.losses[name]++
	}
	s.unverified, s.wasClean = f.unverified, f.wasClean
	s.steady.Store(f.steady.Load())
	s.keys.take(f.keys)
	s.usedNotes.renew(s.clocks())
	s.verified.Store(nil)
	s.detached.set(nil)
	for _, t := range a.adopted {
		if t.whole { // who sees its Info from here on has been told
			close(t.c.found)
		}
	}
	return old
}

// adopt makes c what is in the file, with these indexes. The caller holds mu and front.
func (c *Collection) adopt(ctx context.Context, set *indexSet) {
	c.set.Store(set)
	c.idled.Store(false)
	if c.bounded != nil {
		c.bounded.clear()
	}
	if err := c.loadDictionary(ctx); err != nil {
		c.store.logger().Error(err, "The dictionary of a collection can not be read; another is made", "collection", c.id.String())
	}
	c.store.usedNotes.add(map[string]times{c.name: c.store.clocks()})
}

// goOn begins what has to be done with the file, and says that it is there.
func (a *attachment) goOn() {
	s := a.s
	for _, t := range append(slices.Clone(a.merged), a.adopted...) {
		if t.fill != nil {
			t.c.finishFilling(t.fill, false)
		}
	}
	for _, c := range a.held {
		c.startBuild()
	}
	s.verifyLater()
	s.clearLeft()
	s.logger().Info("The store has its file now; what was in memory is there", "collections", len(a.merged), "foundInTheFile", len(a.adopted))
	close(s.detached.attached)
}
