package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

var (
	errReplaceDone = errors.New("the list has been committed or aborted; begin another")
)

// replacement takes in a list; see Replacement. Its methods must not be called
// at the same time: there is one writer.
type replacement struct {
	c    *Collection
	o    ReplaceOptions
	mode replaceMode
	done bool
	// losses of the collection when the list was begun. What earlier pages found
	// unchanged may be gone since.
	losses int
	gathered
}

// gathered is what Info.Newest and Info.LeftOut will be after a list.
type gathered struct {
	newest []entry.ObjectRef
	refused
}

// replaceMode is how a list is taken in: at once (coldReplace) or as a diff (warmReplace).
type replaceMode interface {
	page(ctx context.Context, items []Op) (Result, error)
	event(ctx context.Context, op Op) (Result, error)
	commit(ctx context.Context, b Batch) (Result, error)
	abort()
}

// BeginReplace starts to take in a list; see Interface.
//
// What an incomplete collection still holds from an earlier process is removed, without a word, and if there are durable handlers, who may have heard of it,
// compared: then the changes are the whole list all the same.
// What this process has stored in it has been reported as changes, so a second
// try of a cold start is a diff over the first one's pages.
func (c *Collection) BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error) {
	r := &replacement{c: c, o: o, losses: c.Losses()}
	err := c.setReplacing(ctx, r)
	if err == nil {
		if err = c.begin(ctx, r); err != nil {
			c.endReplacing()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take in a list of %s: %w", c.id, err)
	}
	if _, cold := r.mode.(*coldReplace); cold {
		if c.resident.Load() != nil {
			c.fillEmpty(ctx)
		}
		if c.bounded != nil {
			c.bounded.clear()
		}
	}
	return r, nil
}

// setReplacing opens r. The other methods that write refuse until endReplacing.
func (c *Collection) setReplacing(ctx context.Context, r *replacement) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	c.front.Lock()
	defer c.front.Unlock()
	switch {
	case c.readOnly:
		return ErrReadOnly
	case c.replacing != nil:
		return ErrReplacing
	}
	c.replacing = r
	return nil
}

// endReplacing closes the open replacement. It waits for no disk.
func (c *Collection) endReplacing() {
	c.front.Lock()
	defer c.front.Unlock()
	c.replacing = nil
}

func (c *Collection) isReplacing() bool {
	c.front.Lock()
	defer c.front.Unlock()
	return c.replacing != nil
}

// begin prepares r. The list is held against the file, so what is pending has to be there.
func (c *Collection) begin(ctx context.Context, r *replacement) error {
	if _, unsaved := c.overlay.current(); unsaved {
		if err := c.store.Flush(ctx); err != nil {
			return err
		}
	}
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	if info.Complete || c.reported.Load() || info.Objects > 0 && c.places.any() {
		warm := &warmReplace{r: r, set: c.set.Load(), at: stagedDelete, unheard: !info.Complete && !c.reported.Load()}
		warm.staging.c = c
		r.mode = warm
		return warm.staging.clear(ctx)
	}
	if err := c.clearLocked(ctx); err != nil {
		return err
	}
	r.mode = &coldReplace{r: r, gone: map[string]string{}}
	return nil
}

// clearLocked empties the collection. Indexes of nothing are ready.
func (c *Collection) clearLocked(ctx context.Context) error {
	var ready []string
	err := c.writeLocked(ctx, nil, func(w *writer) error {
		c.store.tallies.drop(w.bucket.Tx(), tallied{c.name, string(format.BucketObjects)})
		for _, name := range [][]byte{format.BucketObjects, format.BucketIndex} {
			if err := w.bucket.DeleteBucket(name); err != nil {
				return err
			}
			if _, err := w.bucket.CreateBucket(name); err != nil {
				return err
			}
		}
		if w.bucket.Bucket(format.BucketDictionaries) != nil {
			if err := w.bucket.DeleteBucket(format.BucketDictionaries); err != nil {
				return err
			}
		}
		if w.feed != nil && w.state.Objects > 0 {
			return fmt.Errorf("collection %s has durable handlers, which would miss what is removed", w.c.name)
		}
		w.state.Objects, w.state.ResourceVersion, w.state.Newest, w.state.dictionary = 0, "", nil, 0
		w.state.LeftOut, w.state.LeftOutMore = nil, false
		for name, st := range w.state.indexes {
			st.Ready = true
			w.state.indexes[name] = st
			ready = append(ready, name)
			if _, err := w.bucket.Bucket(format.BucketIndex).CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		c.packer.use(nil)
		c.set.Store(c.set.Load().withReady(ready...))
	}
	return err
}

// usable returns why the list can not go on.
func (r *replacement) usable() error {
	switch {
	case r.done:
		return errReplaceDone
	case r.losses != r.c.Losses():
		return fmt.Errorf("list of %s: %w", r.c.id, ErrReplaceLost)
	}
	return nil
}

// Page takes the next items of the list; see Replacement.
func (r *replacement) Page(ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut) (Result, error) {
	if err := r.usable(); err != nil {
		return Result{}, err
	}
	res, err := r.mode.page(ctx, opsOf(items, leftOut))
	if err != nil {
		return res, fmt.Errorf("take in %d items of a list of %s: %w", len(items), r.c.id, err)
	}
	return res, nil
}

// Event folds in a watched event; see Replacement.
func (r *replacement) Event(ctx context.Context, op Op) (Result, error) {
	if err := r.usable(); err != nil {
		return Result{}, err
	}
	res, err := r.mode.event(ctx, op)
	if err != nil {
		return res, fmt.Errorf("take in an event into a list of %s: %w", r.c.id, err)
	}
	return res, nil
}

// Commit applies what was taken in, one transaction a call; see Replacement.
func (r *replacement) Commit(ctx context.Context, b Batch) (Result, error) {
	if err := r.usable(); err != nil {
		return Result{}, err
	}
	if len(b.Ops) > 0 {
		return Result{}, errBatchOps
	}
	res, err := r.mode.commit(ctx, b)
	if err != nil {
		return res, fmt.Errorf("commit a list of %s: %w", r.c.id, err)
	}
	if !res.More {
		r.close()
		r.c.refill()
	}
	return res, nil
}

// Abort forgets what was taken in; see Replacement.
func (r *replacement) Abort() {
	if !r.done {
		r.mode.abort()
		r.close()
	}
}

func (r *replacement) close() {
	r.done = true
	r.c.endReplacing()
}

// write is Collection.write for the open replacement. Whoever shares the store may
// have rebuilt it since the method began, and can not while the transaction lasts.
func (r *replacement) write(ctx context.Context, set *indexSet, fn func(w *writer) ([]*write, error)) error {
	if err := r.c.pause.wait(ctx); err != nil {
		return err
	}
	if err := r.c.lockWrites(ctx); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	return r.c.writeObjectsLocked(ctx, set, func(w *writer) ([]*write, error) {
		if err := r.usable(); err != nil {
			return nil, err
		}
		return fn(w)
	})
}

// ofFailed is the result of a write that failed: what may have been changed all the same.
func ofFailed(err error, changes []Change) Result {
	if errors.Is(err, ErrOutcomeUnknown) {
		return Result{Changes: changes}
	}
	return Result{}
}

// note keeps track of the newest objects of the list.
func (g *gathered) note(x *write) {
	if x.del {
		g.newest = dropRef(g.newest, x.key)
		g.noteGone(x)
		return
	}
	g.newest = offerRef(g.newest, entry.ObjectRef{Key: x.key, UID: x.uid, ResourceVersion: x.rv}, newestRefsGathered)
}

// finish makes the state that of a whole list at b.ResourceVersion. For held see refused.finish.
func (g *gathered) finish(
	st *state, o ReplaceOptions, b Batch, held func(key string) (ref entry.ObjectRef, found bool, err error),
) error {
	if err := g.refused.finish(&st.Info, o.Rewrite, held); err != nil {
		return err
	}
	st.Complete, st.Attributes = true, o.Attributes
	st.ResourceVersion, st.MustRelist = "", ""
	if b.ResourceVersion == "" {
		st.MustRelist = "the list came without a resourceVersion"
	}
	st.advance(b)
	st.Newest = nil
	for _, ref := range g.newest {
		if len(st.Newest) == newestRefs {
			break
		}
		if l, left := g.objects[ref.Key]; left {
			if entry.NewerRV(l.ResourceVersion, ref.ResourceVersion) {
				continue // the server has it in a newer state
			}
			if now, found, err := held(ref.Key); err != nil {
				return err
			} else if !found || now != ref {
				continue // this is the state that could not be stored
			}
		}
		st.Newest = append(st.Newest, ref)
	}
	return nil
}

// held returns the state of an object in the transaction.
func (w *writer) held(key string) (ref entry.ObjectRef, found bool, err error) {
	now, err := w.get(key)
	return entry.ObjectRef{Key: key, UID: now.UID, ResourceVersion: now.RV}, now.found, err
}

// opsOf are the items of a page.
func opsOf(items []runtime.Object, leftOut []entry.LeftOut) []Op {
	ops := make([]Op, 0, len(items)+len(leftOut))
	for _, item := range items {
		ops = append(ops, Op{Object: item})
	}
	for _, l := range leftOut {
		ops = append(ops, Op{Type: LeaveOut, LeftOut: l})
	}
	return ops
}

// dropStaging removes the bucket that a relist too large for memory was staged in.
func dropStaging(b *bolt.Bucket) error {
	if b.Bucket(format.BucketStaging) == nil {
		return nil
	}
	return b.DeleteBucket(format.BucketStaging)
}

// changeOf describes one key's difference.
func changeOf(key string, before, now runtime.Object) Change {
	switch {
	case now == nil:
		return Change{Type: cache.Deleted, Key: key, Old: before}
	case before == nil:
		return Change{Type: cache.Added, Key: key, New: now}
	}
	return Change{Type: cache.Updated, Key: key, Old: before, New: now}
}
