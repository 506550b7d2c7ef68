package informer

import (
	"context"
	"sync"

	"github.com/larder-dev/larder/store"
)

// mutant breaks an informer of ours, by what its store says.
type mutant struct {
	// changes may alter what a transaction says it changed.
	changes func(changes []store.Change) []store.Change
}

func (m *mutant) install(i *Informer) {
	if m == nil || i == nil {
		return
	}
	if m.changes != nil {
		i.store = &mutantStore{Interface: i.store, m: m}
	}
}

// mutantStore passes on changes as its mutant wants them.
type mutantStore struct {
	store.Interface
	m  *mutant
	mu sync.Mutex
}

func (s *mutantStore) Apply(ctx context.Context, b store.Batch) (store.Result, error) {
	res, err := s.Interface.Apply(ctx, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	res.Changes = s.m.changes(res.Changes)
	return res, err
}
