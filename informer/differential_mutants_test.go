package informer_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// mutant injects a fault into our informer, which the differential test must find.
type mutant struct {
	// changes modifies the result of a transaction's changes, and reports in done whether it did; nil modifies nothing.
	changes func(changes []entry.Change) (out []entry.Change, done bool)
	// forget drops a handler that is registered during the run, after the stored objects were delivered to it.
	forget   bool
	restores []func() // restores undo the dropping, so that the processor stops the handlers

	mu   sync.Mutex
	done bool
}

func (m *mutant) install(i *informer.Informer) {
	if m != nil && m.changes != nil && i != nil {
		informer.SetStore(i, &mutantStore{Interface: informer.Store(i), m: m})
	}
}

func (m *mutant) added(i *informer.Informer, p *tap, running bool) {
	if m == nil || !m.forget || !running || i == nil || p.reg == nil {
		return
	}
	m.restores = append(m.restores, informer.Forget(i, p.reg))
}

// restore undoes the dropping of handlers, so that the informer stops them at its end.
func (m *mutant) restore(i *informer.Informer) {
	if m == nil || i == nil {
		return
	}
	for _, restore := range m.restores {
		restore()
	}
	m.restores = nil
}

type mutantStore struct {
	store.Interface
	m *mutant
}

func (s *mutantStore) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	res, err := s.Interface.Apply(ctx, b)
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if !s.m.done {
		res.Changes, s.m.done = s.m.changes(res.Changes)
	}
	return res, err
}

// TestDifferentialCatches checks that the differential test finds each of three injected faults within a few scripts.
func TestDifferentialCatches(t *testing.T) {
	surviveHandlers(t)
	for name, make := range map[string]func() *mutant{
		"dropped event": func() *mutant {
			return &mutant{changes: func(c []entry.Change) ([]entry.Change, bool) {
				if len(c) == 0 {
					return c, false
				}
				return c[:len(c)-1], true
			}}
		},
		"swapped events": func() *mutant {
			return &mutant{changes: func(c []entry.Change) ([]entry.Change, bool) {
				if len(c) < 2 {
					return c, false
				}
				out := slices.Clone(c)
				out[0], out[1] = out[1], out[0]
				return out, true
			}}
		},
		"forgotten late handler": func() *mutant { return &mutant{forget: true} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			const most = 40
			for seed := uint64(1); seed <= most; seed++ {
				m := make()
				s := generate(seed)
				fails, _ := s.run(t, dir, m)
				if len(fails) > 0 {
					t.Logf("caught in script %d: %s", seed, firstLine(fails[0]))
					return
				}
			}
			t.Errorf("not caught in %d scripts", most)
		})
	}
}
