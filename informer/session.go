package informer

import (
	"context"
	"errors"
	"sync"

	"github.com/larder-dev/larder/store"
)

// Factory is an informer factory of package factory, of client-go, or generated with a clientset.
type Factory interface {
	Start(stop <-chan struct{})
	Shutdown()
}

// A Session is what Run gives a program.
type Session struct {
	// Store is for the Options of informers and factories.
	Store *store.Store

	ctx       context.Context
	informers sync.WaitGroup
	mu        sync.Mutex
	factories []Factory // guarded by mu; to be shut down
}

// Run opens the store at path, runs the program, and closes everything in the right order when the program returns:
// it ends the informers and factories that the program started, waits for them, and closes the store. The program
// returns when ctx ends. Run returns what the program returned, and what went wrong when the store was closed.
func Run(
	ctx context.Context, path string, o store.Options, program func(ctx context.Context, s *Session) error,
) (err error) {
	st, err := store.OpenContext(ctx, path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{Store: st, ctx: ctx}
	defer s.wait()
	defer cancel()
	return program(ctx, s)
}

// Start runs informers until the program has returned.
func (s *Session) Start(informers ...*Informer) {
	for _, i := range informers {
		s.informers.Go(func() { i.RunWithContext(s.ctx) })
	}
}

// StartFactories starts the informers that the factories have by now, until the program has returned.
// It may be called again for those that they have got since.
func (s *Session) StartFactories(factories ...Factory) {
	s.mu.Lock()
	s.factories = append(s.factories, factories...)
	s.mu.Unlock()
	for _, f := range factories {
		if f, ok := f.(interface{ StartWithContext(context.Context) }); ok {
			f.StartWithContext(s.ctx) // which has a logger
			continue
		}
		f.Start(s.ctx.Done())
	}
}

// wait returns once nothing that was started is running.
func (s *Session) wait() {
	s.informers.Wait()
	s.mu.Lock()
	factories := s.factories
	s.mu.Unlock()
	for _, f := range factories {
		f.Shutdown() // more than once does nothing more
	}
}
