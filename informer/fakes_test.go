package informer_test

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

var discard = logr.Discard()

func quietHandlers(t *testing.T) {
	t.Helper()
	old := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = nil
	t.Cleanup(func() { utilruntime.PanicHandlers = old })
}

// slowStore is a store whose first Iterate blocks at a given key.
type slowStore struct {
	store.Interface
	at              string
	once            sync.Once
	reached, resume chan struct{}
}

func (s *slowStore) Iterate(ctx context.Context, after string, fn func(string, runtime.Object) error) error {
	return s.Interface.Iterate(ctx, after, func(key string, obj runtime.Object) error {
		if key == s.at {
			first := false
			s.once.Do(func() { first = true })
			if first {
				close(s.reached)
				<-s.resume
			}
		}
		return fn(key, obj)
	})
}

// lockedStore is a store that calls check before each method that needs the informer's deltasMu.
type lockedStore struct {
	store.Interface
	check func(what string)
}

func (s *lockedStore) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	s.check("Apply")
	return s.Interface.Apply(ctx, b)
}

func (s *lockedStore) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	s.check("BeginReplace")
	r, err := s.Interface.BeginReplace(ctx, o)
	return &lockedReplacement{r, s}, err
}

type lockedReplacement struct {
	store.Replacement
	s *lockedStore
}

func (r *lockedReplacement) Page(ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut) (entry.Result,
	error) {
	r.s.check("Page")
	return r.Replacement.Page(ctx, items, leftOut...)
}

func (r *lockedReplacement) Event(ctx context.Context, op entry.Op) (entry.Result, error) {
	r.s.check("Event")
	return r.Replacement.Event(ctx, op)
}

func (r *lockedReplacement) Commit(ctx context.Context, b entry.Batch) (entry.Result, error) {
	r.s.check("Commit")
	return r.Replacement.Commit(ctx, b)
}

type faultyStore struct {
	store.Interface
	mu       sync.Mutex
	err      error
	times    int // times is the number of writes that will still fail; -1 for all
	attempts int
	skip     int // skip is the number of writes that succeed before the first failure
}

func (s *faultyStore) set(err error, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.times = err, times
}

func (s *faultyStore) failed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

func (s *faultyStore) next() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skip > 0 || s.times == 0 {
		s.skip = max(0, s.skip-1)
		return nil
	}
	s.times--
	s.attempts++
	return s.err
}

func (s *faultyStore) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	if err := s.next(); err != nil {
		return entry.Result{}, err
	}
	return s.Interface.Apply(ctx, b)
}

func (s *faultyStore) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	if err := s.next(); err != nil {
		return nil, err
	}
	r, err := s.Interface.BeginReplace(ctx, o)
	return &faultyReplacement{r, s}, err
}

type faultyReplacement struct {
	store.Replacement
	s *faultyStore
}

func (r *faultyReplacement) Page(ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut) (entry.Result,
	error) {
	if err := r.s.next(); err != nil {
		return entry.Result{}, err
	}
	return r.Replacement.Page(ctx, items, leftOut...)
}

func (r *faultyReplacement) Commit(ctx context.Context, b entry.Batch) (entry.Result, error) {
	if err := r.s.next(); err != nil {
		return entry.Result{}, err
	}
	return r.Replacement.Commit(ctx, b)
}
