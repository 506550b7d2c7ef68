package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
)

// tailPage is the number of stored keys that one read transaction collects after the last key of a list.
const tailPage = 10000

// listEnd is the progress of the end of a list, which may take several calls of Commit.
type listEnd struct {
	begun   bool
	deletes []string // deletes are the keys still to be deleted, sorted.
	puts    []string // puts are the keys still to be put, sorted.
}

// commit applies the next step: deletes first, then the other differences, each in key order.
func (r *Replacement) commit(ctx context.Context, b entry.Batch) (entry.Result, error) {
	if !r.end.begun {
		if err := r.rest(ctx); err != nil {
			return entry.Result{}, err
		}
		r.end = listEnd{begun: true, deletes: slices.Sorted(maps.Keys(r.deletes)), puts: slices.Sorted(maps.Keys(r.puts))}
	}
	deletes, puts, more := r.step()
	finish := r.interrupt
	if !more {
		finish = func(info *entry.Info) (*EndedList, error) {
			keepsTyped := !r.o.Rewrite && r.c.isTyped(info.Attributes.Schema)
			err := r.finish(info, r.o, b, r.held(ctx, deletes, puts))
			r.c.noteTyped(info, &Write{Typed: r.typed || keepsTyped})
			if r.As != nil {
				r.As(info)
			}
			return &EndedList{Rewritten: r.o.Rewrite}, err
		}
	}
	changes, skipped, err := r.apply(ctx, deletes, puts, finish)
	if err != nil {
		return entry.Result{}, err
	}
	r.end.deletes, r.end.puts = r.end.deletes[len(deletes):], r.end.puts[len(puts):]
	if !more && r.o.Rewrite {
		r.c.Set.Load().AllStored()
	}
	return entry.Result{Changes: changes, Skipped: skipped, More: more}, nil
}

// interrupt sets MustRelist until the list has ended. If the list rewrites every object, MustRelist keeps the reason
// for which that list was requested: the next list for that reason rewrites every object too, and so replaces the
// mixture of states.
func (r *Replacement) interrupt(info *entry.Info) (*EndedList, error) {
	if info.MustRelist == "" || info.MustRelist == entry.MustRelistOpaque || !r.o.Rewrite {
		info.MustRelist = format.MustRelistInterrupted
	}
	return nil, nil
}

// rest adds to deletes the stored keys after the last key of the list.
func (r *Replacement) rest(ctx context.Context) error {
	for {
		var missing map[string]int
		var last string
		err := r.c.look(ctx, func(h held) (err error) {
			missing, last, err = r.missing(h, nil, "\xff\xff\xff\xff", tailPage)
			return err
		})
		if err != nil {
			return err
		}
		maps.Copy(r.deletes, missing)
		if r.last = max(r.last, last); len(missing) < tailPage {
			return nil
		}
	}
}

// step returns the keys of the next step, whose changes have about Limits.Step bytes, and whether further keys remain.
func (r *Replacement) step() (deletes, puts []string, more bool) {
	size, n := 0, 0
	for ; n < len(r.end.deletes) && size <= r.c.Limits.Step; n++ {
		size += r.deletes[r.end.deletes[n]]
	}
	deletes = r.end.deletes[:n]
	for n = 0; len(deletes) == len(r.end.deletes) && n < len(r.end.puts) && size <= r.c.Limits.Step; n++ {
		size += 2 * r.puts[r.end.puts[n]].Size() // A reported change also has the old state.
	}
	puts = r.end.puts[:n]
	return deletes, puts, len(deletes) < len(r.end.deletes) || len(puts) < len(r.end.puts)
}

func (r *Replacement) apply(
	ctx context.Context, deletes, puts []string, finish func(*entry.Info) (*EndedList, error),
) (changes []entry.Change, skipped []entry.Skipped, err error) {
	for {
		set := r.c.Set.Load()
		writes := make([]*Write, 0, len(deletes)+len(puts))
		unindexed := map[string]error{}
		for _, key := range deletes {
			writes = append(writes, &Write{Key: key, Del: true})
		}
		skipped = nil
		for _, key := range puts {
			x, failed, err := r.decoded(set, r.puts[key])
			if failed != nil {
				unindexed[key] = failed
			}
			if err != nil {
				r.leaveOut(leftOutOf(x, err))
				skipped = append(skipped, entry.Skipped{Key: key, Err: err})
				continue
			}
			writes = append(writes, x)
		}
		if changes, writes, err = r.differences(ctx, writes); err != nil {
			return nil, nil, err
		}
		err = r.c.putList(ctx, r, set, writes, finish)
		if err == nil {
			for key, failed := range unindexed {
				set.Lacks(key, failed)
			}
		}
		if !errors.Is(err, errIndexesChanged) {
			return changes, skipped, err
		}
	}
}

// decoded returns a copy of a held write with its object and its terms. err is the codec's error for the payload; the
// caller then leaves out only this object. unindexed is the error of an index function; the object is then stored
// without terms in that index.
func (r *Replacement) decoded(set *IndexSet, p *listed) (w *Write, unindexed, err error) {
	x := *p.Write
	obj, err := r.c.encoder(set).Decode(&x)
	if x.Obj = obj; err == nil && p.generation != set.Generation() {
		x.Terms, unindexed = set.Terms(obj)
	}
	return &x, unindexed, err
}

// differences returns the changes to report for held writes, and the writes that are still needed.
func (r *Replacement) differences(
	ctx context.Context, writes []*Write,
) (changes []entry.Change, needed []*Write, err error) {
	err = r.c.look(ctx, func(h held) error {
		changes, needed = nil, nil
		for _, x := range writes {
			now, err := h.Get(x.Key)
			if err != nil {
				return err
			}
			change, need, err := r.difference(x, true, now)
			if err != nil {
				return err
			}
			if change != nil {
				changes = append(changes, *change)
			}
			if need {
				needed = append(needed, x)
			}
		}
		return nil
	})
	return changes, needed, err
}

// held returns a function that returns the state of an object after a step with these deletes and puts.
func (r *Replacement) held(
	ctx context.Context, deletes, puts []string,
) func(key string) (entry.ObjectRef, bool, error) {
	return func(key string) (ref entry.ObjectRef, found bool, err error) {
		if _, gone := slices.BinarySearch(deletes, key); gone {
			return entry.ObjectRef{}, false, nil
		}
		if _, put := slices.BinarySearch(puts, key); put && !r.isLeftOut(key, r.puts[key].RV) {
			p := r.puts[key]
			return entry.ObjectRef{Key: key, UID: p.UID, ResourceVersion: p.RV}, true, nil
		}
		err = r.c.look(ctx, func(h held) error {
			now, err := h.Get(key)
			if now != nil {
				ref, found = refOf(key, now), true
			}
			return err
		})
		return ref, found, err
	}
}

// SemanticallyEqual compares two objects. It returns false for an undecodable object, or if the comparison panics.
func SemanticallyEqual(a, b runtime.Object) bool {
	equal := false
	err := base.Try("the comparison", func() (err error) {
		if a, err = entry.Decoded(a); err != nil {
			return err
		}
		if b, err = entry.Decoded(b); err != nil {
			return err
		}
		equal = equality.Semantic.DeepEqual(a, b)
		return nil
	})
	return err == nil && equal
}
