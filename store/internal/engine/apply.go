package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
)

// Apply applies the batch; see store.Interface.
//
// Like client-go, it applies ops in order and regardless of resourceVersions. Several ops of one key yield a Change
// each, but only one record. A delete of a missing key yields a Change without Old. If an op is skipped, the stored
// object under its key stays: a stale object does less harm than one that seems to be deleted.
func (c *Collection) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	res, err := c.apply(ctx, b)
	if err != nil {
		return res, fmt.Errorf("apply %d changes to %s: %w", len(b.Ops), c.ID, err)
	}
	if c.Commits != nil && c.Commits.AtOnce {
		err = c.Commits.Flush(ctx)
	}
	return res, err
}

func (c *Collection) apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	if err := c.Commits.Backpressure(ctx, c, !b.Unpaced); err != nil {
		return entry.Result{}, err
	}
	for {
		set := c.Set.Load()
		e := c.encoder(set).encode(b.Ops)
		changes, err := c.applyEncoded(ctx, set, e, b)
		switch {
		case err == nil:
			c.reported.Store(true)
			return entry.Result{Changes: changes, Skipped: e.skipped}, nil
		case !errors.Is(err, errIndexesChanged):
			return entry.Result{}, err
		}
	}
}

// applyEncoded applies a batch atomically: readers see all of it when applyEncoded returns. It reads old states that
// are not in memory from the file. It does not wait for a commit. It fails with errIndexesChanged if set is out of
// date.
func (c *Collection) applyEncoded(
	ctx context.Context, set *IndexSet, e encoded, b entry.Batch,
) (changes []entry.Change, err error) {
	unlock, err := c.lockFront(ctx, set)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c.replacing != nil {
		return nil, ErrReplacing
	}
	keys, info, err := c.beforeBatch(ctx, e.writes)
	if err != nil {
		return nil, err
	}
	changes = make([]entry.Change, 0, len(e.writes))
	var events []*history.Event
	c.number(e.writes)
	for _, x := range e.writes {
		if p := keys[x.Key]; c.History != nil && (!x.Del || p.Entry != nil) {
			events = append(events, p.event(x, c.Read.Codec))
		}
		changes = append(changes, keys[x.Key].change(x))
	}
	last := make([]*Write, 0, len(keys))
	for _, x := range e.writes {
		if keys[x.Key].last == x {
			last = append(last, x)
			CountWrite(&info, x, keys[x.Key].Found)
			c.noteTyped(&info, x)
			delete(c.unreported, x.Key)
			set.Stored(x.Key)
		}
	}
	clearUnproven(&info, changes, e.writes, b)
	noteBatch(&info, last, e)
	advance(&info, b)
	c.put(last, info, nil, func() {
		if c.History != nil {
			c.History.Put(events, info.ResourceVersion)
		}
	})
	return changes, nil
}

// number sets Write.Order, the position of each write among all writes of the collection. The caller holds Front.
func (c *Collection) number(writes []*Write) {
	for _, x := range writes {
		c.writes++
		x.Order = c.writes
	}
}

// errIndexesChanged means that index functions were added after the terms of a write were computed.
var errIndexesChanged = errors.New("the indexes have changed")

// lockFront locks Front for writes whose index terms were computed with set. It waits for the end of a Pause. It fails
// if ctx ends, if the collection accepts no writes, or with errIndexesChanged if index functions were added since.
func (c *Collection) lockFront(ctx context.Context, set *IndexSet) (unlock func(), err error) {
	for c.front.Lock(); c.paused != nil; c.front.Lock() {
		paused := c.paused
		c.front.Unlock()
		select {
		case <-paused:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch err = cmp.Or(ctx.Err(), c.checkOpen()); {
	case err != nil:
	case set.Generation() != c.Set.Load().Generation():
		err = errIndexesChanged
	default:
		return c.front.Unlock, nil
	}
	c.front.Unlock()
	return nil, err
}

// putList applies the writes of a list. If finish is not nil, it edits the Info that is stored with the writes. putList
// waits for backpressure, but not for a commit.
func (c *Collection) putList(
	ctx context.Context, r *Replacement, set *IndexSet, last []*Write,
	finish func(*entry.Info) (*EndedList, error),
) error {
	if err := c.Commits.Backpressure(ctx, c, false); err != nil {
		return err
	}
	unlock, err := c.lockFront(ctx, set)
	if err != nil {
		return err
	}
	defer unlock()
	found, info, err := c.beforeWrites(ctx, last)
	if err != nil {
		return err
	}
	if err := r.usable(); err != nil {
		return err
	}
	for _, x := range last {
		CountWrite(&info, x, found[x.Key])
		c.noteTyped(&info, x)
	}
	var ended *EndedList
	if finish != nil {
		if ended, err = finish(&info); err != nil {
			return err
		}
	}
	c.reported.Store(true)
	for _, x := range last {
		delete(c.unreported, x.Key)
		set.Stored(x.Key)
	}
	c.number(last)
	r.changed = r.changed || slices.ContainsFunc(last, func(x *Write) bool { return !x.SameObject })
	c.put(last, info, ended, func() {
		switch {
		case c.History == nil:
		case ended != nil:
			c.History.Restart(info.ResourceVersion, r.changed)
		default:
			c.History.Disturb()
		}
	})
	return nil
}

// beforeWrites returns from one snapshot the keys of the writes that have an object, and the collection's Info.
func (c *Collection) beforeWrites(
	ctx context.Context, writes []*Write,
) (found map[string]bool, info entry.Info, err error) {
	found = make(map[string]bool, len(writes))
	err = c.look(ctx, func(h held) (err error) {
		info, err = h.Info()
		for _, x := range writes {
			found[x.Key] = h.Has(x.Key)
		}
		return err
	})
	return found, info.Clone(), err
}

// Pending is the state of one key while a batch is applied.
type Pending struct {
	Found   bool           // Found is true if the key existed before the batch.
	UID, RV string         // UID and RV are from the record before the batch, not from Obj.
	Obj     runtime.Object // Obj is the object after the ops applied so far, or nil.
	last    *Write         // last is the last write of the key in this batch, or nil.
	// Entry is the encoded object after the ops so far; nil for a deleted key, and in a collection without a history.
	Entry *entry.Entry
}

// event returns the history event of the write x, and sets p.Entry to the state after x. c is the collection's codec.
func (p *Pending) event(x *Write, c codec.Codec) *history.Event {
	e := &history.Event{Key: x.Key, Old: p.Entry, New: x.Entry(c.Name()), Deleted: x.Del}
	e.RV, _ = strconv.ParseUint(x.RV, 10, 64) // Other resourceVersions become 0: out of order for the history.
	p.Entry = e.After()
	return e
}

func (p *Pending) change(x *Write) entry.Change {
	ch := entry.Change{Type: cache.Updated, Key: x.Key, Old: p.Obj, New: x.Obj, Contradicts: p.contradicts(x)}
	if held, uid, rv := p.held(); held {
		ch.OldRef = entry.ObjectRef{Key: x.Key, UID: uid, ResourceVersion: rv}
	}
	switch {
	case p.last != nil:
		x.Follow(p.last)
	case !p.Found && !x.Del:
		x.Since = x.RV
	}
	p.last = x
	switch {
	case x.Del:
		ch.Type, p.Obj = cache.Deleted, nil
	case p.Obj == nil:
		ch.Type, p.Obj = cache.Added, x.Obj
	default:
		p.Obj = x.Obj
	}
	return ch
}

// contradicts reports whether x is an event that cannot follow the state p; see Change.Contradicts. A missing UID
// equals every UID, since some aggregated APIs serve objects without UIDs.
func (p *Pending) contradicts(x *Write) bool {
	if x.Event == "" {
		return false
	}
	held, uid, _ := p.held()
	if !held {
		return x.Event != cache.Added
	}
	return uid != "" && x.UID != "" && uid != x.UID
}

// held returns whether the key has an object after the writes so far, and the object's UID and resourceVersion.
func (p *Pending) held() (held bool, uid, rv string) {
	if p.last != nil {
		return !p.last.Del, p.last.UID, p.last.RV
	}
	return p.Found, p.UID, p.RV
}

// clearUnproven clears Change.Contradicts where the stored state does not prove a contradiction. For a proven
// contradiction it sets MustRelist to the batch's IfContradicted. Call it before noteBatch and advance, because it
// needs the Info from before the batch.
func clearUnproven(i *entry.Info, changes []entry.Change, writes []*Write, b entry.Batch) {
	due := i.MustRelist
	for n := range changes {
		c := &changes[n]
		c.Contradicts = c.Contradicts && i.Complete && i.MustRelist == "" && !mayLack(i, c.Key) &&
			entry.NewerRV(writes[n].RV, i.ResourceVersion)
		if c.Contradicts {
			due = b.IfContradicted
		}
	}
	i.MustRelist = due
}

// CountWrite updates i.Objects and i.Newest for the write x. found is true if the key was stored before.
func CountWrite(i *entry.Info, x *Write, found bool) {
	switch {
	case x.Del:
		i.Newest = DropRef(i.Newest, x.Key)
		if found {
			i.Objects--
		}
	default:
		i.Newest = OfferRef(i.Newest, entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}, NewestRefs)
		if !found {
			i.Objects++
		}
	}
}

// noteTyped sets Attributes.Schema to the codec's fingerprint if the payload of x depends on its Go type, and
// Attributes.Schema still means that all payloads are as the server sent them.
func (c *Collection) noteTyped(i *entry.Info, x *Write) {
	if x.Typed && !x.Del && c.Read.Codec != nil && i.Attributes.Schema == codec.SentFingerprint(c.Read.Codec) {
		i.Attributes.Schema = c.Read.Codec.Fingerprint()
	}
}

// isTyped reports whether schema, from Attributes, means that payloads depend on the Go type.
func (c *Collection) isTyped(schema string) bool {
	return schema != "" && c.Read.Codec != nil && schema != codec.SentFingerprint(c.Read.Codec)
}

// advance sets the resourceVersion and the last contact of a batch, if the batch has them. For a resourceVersion that
// cannot be compared, advance sets MustRelist instead.
func advance(i *entry.Info, b entry.Batch) {
	if !b.LastContact.IsZero() {
		i.LastContact = b.LastContact
	}
	switch {
	case b.ResourceVersion == "":
	case entry.ComparableRV(b.ResourceVersion):
		i.ResourceVersion = b.ResourceVersion
	default:
		i.ResourceVersion, i.MustRelist = "", entry.MustRelistOpaque
	}
}

// NewestRefs is the maximum length of Info.Newest, the references to the newest objects. A list collects up to
// newestRefsGathered, so that enough remain after delete events.
const (
	NewestRefs         = 8
	newestRefsGathered = 64
)

// OfferRef inserts ref into refs, newest first, and removes another reference to the same key. It drops references
// beyond limit. It does not insert ref if its resourceVersion cannot be compared. It may modify refs.
func OfferRef(refs []entry.ObjectRef, ref entry.ObjectRef, limit int) []entry.ObjectRef {
	refs = DropRef(refs, ref.Key)
	if !entry.ComparableRV(ref.ResourceVersion) {
		return refs
	}
	at, _ := slices.BinarySearchFunc(refs, ref, func(have, want entry.ObjectRef) int {
		if entry.NewerRV(have.ResourceVersion, want.ResourceVersion) {
			return -1
		}
		return 1
	})
	if at >= limit {
		return refs
	}
	refs = slices.Insert(refs, at, ref)
	return refs[:min(len(refs), limit)]
}

// DropRef returns refs without the reference to key. It may modify refs.
func DropRef(refs []entry.ObjectRef, key string) []entry.ObjectRef {
	return slices.DeleteFunc(refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
