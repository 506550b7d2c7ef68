package store

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

var (
	errReplaceDone = errors.New("the list has been committed or aborted; begin another")
)

// replacement makes a collection equal to a list; see Replacement. Its methods must not be called at the same time:
// there is one writer.
//
// An item that differs from what the collection holds is a difference. Differences are held until the list ends, so
// that readers see the old state or the new one, unless they are too many: then each is put into the collection as it
// comes (showing), and Info.MustRelist is set until the end. In a collection that is not complete there is nobody to
// hold them for, and they show from the beginning. Deletes wait for the end: an item may come in any order.
//
// Of the keys up to last it is known what becomes of them: they are in puts or deletes, or are what the list has. A
// list that is not in order costs deletes that are taken back, and nothing else.
type replacement struct {
	in   *intake
	o    ReplaceOptions
	done bool
	// losses of the collection when the list was begun. What earlier pages found unchanged may be gone since.
	losses int
	// showing: differences are put into the collection as they come.
	showing bool
	last    string
	puts    map[string]*listed
	deletes map[string]int // keys that the list lacks so far, and about how many bytes their objects take
	bytes   int            // of puts
	events  map[string]watched
	revised bool // whether there is to be another dictionary has been decided
	gathered
	end listEnd
}

// listed is an object of the list, or of an event, that the collection is to hold. If it has a payload it has no
// object: that is made when it is put.
type listed struct {
	*memtable.Write
	generation int  // of the index functions that its terms are of
	event      bool // it came by an event
}

// watched is an event that came while the list was paged: older states in the list are not taken.
type watched struct {
	rv   string
	gone bool
}

// gathered is what Info.Newest and Info.LeftOut will be after a list.
type gathered struct {
	newest []entry.ObjectRef
	refused
}

// BeginReplace starts to take in a list; see Interface.
//
// What an incomplete collection still holds from an earlier process was told to nobody, or to durable handlers only:
// the changes are the whole list all the same, and what the list lacks is removed without a word. What this process has
// stored in it has been reported as changes, so a second try of a cold start is a diff over the first one's pages.
func (in *intake) BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error) {
	r := &replacement{
		in: in, o: o, losses: in.back.losses(),
		puts: map[string]*listed{}, deletes: map[string]int{}, events: map[string]watched{},
	}
	err := in.setReplacing(r)
	if err == nil {
		if r.showing, err = in.beginList(ctx); err != nil {
			in.endReplacing()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take in a list of %s: %w", in.id, err)
	}
	return r, nil
}

// beginList reports whether the list is to show its differences as they come: there is nobody to hold them back for.
func (in *intake) beginList(ctx context.Context) (showing bool, err error) {
	info, err := in.back.Info(ctx)
	if err != nil || info.Complete || in.reported.Load() {
		return false, err
	}
	keys, err := in.back.Keys(ctx)
	in.unheard = make(map[string]struct{}, len(keys))
	for _, key := range keys {
		in.unheard[key] = struct{}{}
	}
	return true, err
}

// setReplacing opens r. The other methods that write refuse until endReplacing.
func (in *intake) setReplacing(r *replacement) error {
	in.front.Lock()
	defer in.front.Unlock()
	if err := in.back.takesIn(); err != nil {
		return err
	}
	if in.replacing != nil {
		return ErrReplacing
	}
	in.replacing = r
	return nil
}

// endReplacing closes the open replacement. It waits for no disk.
func (in *intake) endReplacing() {
	in.front.Lock()
	defer in.front.Unlock()
	in.replacing = nil
}

// usable returns why the list cannot go on.
func (r *replacement) usable() error {
	switch {
	case r.done:
		return errReplaceDone
	case r.losses != r.in.back.losses():
		return fmt.Errorf("list of %s: %w", r.in.id, ErrReplaceLost)
	}
	return nil
}

// Page takes the next items of the list; see Replacement.
func (r *replacement) Page(ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut) (Result, error) {
	if err := r.usable(); err != nil {
		return Result{}, err
	}
	res, err := r.page(ctx, opsOf(items, leftOut))
	if err != nil {
		return res, fmt.Errorf("take in %d items of a list of %s: %w", len(items), r.in.id, err)
	}
	return res, nil
}

// Event folds in a watched event; see Replacement.
func (r *replacement) Event(ctx context.Context, op Op) (Result, error) {
	if err := r.usable(); err != nil {
		return Result{}, err
	}
	res, err := r.event(ctx, op)
	if err != nil {
		return res, fmt.Errorf("take in an event into a list of %s: %w", r.in.id, err)
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
	res, err := r.commit(ctx, b)
	if err != nil {
		return res, fmt.Errorf("commit a list of %s: %w", r.in.id, err)
	}
	if !res.More {
		r.close()
		r.in.back.listEnded()
	}
	return res, nil
}

// Abort forgets what was taken in; see Replacement.
func (r *replacement) Abort() {
	if !r.done {
		r.close()
	}
}

func (r *replacement) close() {
	r.done = true
	r.in.endReplacing()
}

// note keeps track of the newest objects of the list.
func (g *gathered) note(x *memtable.Write) {
	if x.Del {
		g.newest = dropRef(g.newest, x.Key)
		g.noteGone(x)
		return
	}
	g.newest = offerRef(g.newest, entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}, newestRefsGathered)
}

// finish makes the state that of a whole list at b.ResourceVersion. For held see refused.finish.
func (g *gathered) finish(
	st *Info, o ReplaceOptions, b Batch, held func(key string) (ref entry.ObjectRef, found bool, err error),
) error {
	if err := g.refused.finish(st, o.Rewrite, held); err != nil {
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
