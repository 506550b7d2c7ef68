package informer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/store"
)

// chunkedStore commits a list in two transactions, the second of which fails at first.
type chunkedStore struct {
	store.Interface
	err error
}

func (s *chunkedStore) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	r, err := s.Interface.BeginReplace(ctx, o)
	return &chunkedReplacement{Replacement: r, s: s}, err
}

type chunkedReplacement struct {
	store.Replacement
	s    *chunkedStore
	rest []store.Change
}

func (r *chunkedReplacement) Commit(ctx context.Context, b store.Batch) (store.Result, error) {
	if r.rest != nil || r.s.err == nil {
		return store.Result{Changes: r.rest}, nil
	}
	res, err := r.Replacement.Commit(ctx, b)
	if err != nil {
		return res, err
	}
	r.rest = res.Changes[1:]
	return store.Result{Changes: res.Changes[:1]}, r.s.err
}

// TestCommitHalfDone: the diff of a list is too large for one transaction, and the second one fails. What the first
// has stored is told, once.
func TestCommitHalfDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		r.start()
		r.close()
		r.srv.write("a/1", "y")
		r.srv.write("a/2", "y")
		r.srv.compact()
		h := &recorder{}
		i := r.open()
		i.store = &chunkedStore{Interface: i.store, err: store.ErrNoSpace}
		r.run(h)
		time.Sleep(time.Minute)
		synctest.Wait()
		known := map[string]string{}
		replay(t, known, h.take())
		equal(t, "handler", sortedValues(known), r.srv.state())
		r.close()
	})
}

// TestListOutcomeUnknown: a write of a list fails and has taken effect all the same, so the next list finds no difference.
// The handlers hear of everything.
func TestListOutcomeUnknown(t *testing.T) {
	for name, skip := range map[string]int{"page of a cold start": 1, "end of a cold start": 2, "end of a relist": 5} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				r.srv.write("a/3", "x")
				h := &recorder{}
				i := r.open()
				f := &faultyStore{Interface: i.store, skip: skip}
				f.set(store.ErrOutcomeUnknown, 1, true)
				i.store = f
				i.rebuild = func(context.Context) error { return nil }
				r.run(h)
				time.Sleep(time.Minute)
				synctest.Wait()
				r.srv.setFail(refuse)
				r.srv.disconnect()
				r.srv.write("a/1", "y")
				r.srv.delete("a/2")
				r.srv.write("a/4", "x")
				r.srv.compact()
				r.srv.setFail(nil)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				known := map[string]string{}
				for _, line := range h.take() {
					tellAgain(known, line)
				}
				equal(t, "handler", sortedValues(known), r.srv.state())
				if f.failed() != 1 {
					t.Errorf("%d failures", f.failed())
				}
				r.close()
			})
		})
	}
}

// tellAgain replays a line of a recorder that may have been told before.
func tellAgain(known map[string]string, line string) {
	words := strings.Fields(line)
	switch words[0] {
	case "gone", "delete":
		key, _, _ := strings.Cut(words[1], "@")
		delete(known, key)
	default:
		now := words[1]
		if words[0] == "update" {
			now = words[3]
		}
		key, _, _ := strings.Cut(now, "@")
		known[key] = now
	}
}
