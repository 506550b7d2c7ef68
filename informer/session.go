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

// A Session is the argument of a program that Run runs. It has the store, and starts the informers and factories that
// use it.
type Session struct {
	// Store is the open store, for the Options of informers and factories.
	Store *store.Store

	ctx       context.Context
	informers sync.WaitGroup
	mu        sync.Mutex
	factories []Factory // factories are the started factories, which wait shuts down; mu guards them
}

// Run opens the store at path and runs the program. When the program returns, Run stops the informers and factories
// that the program started, waits for them, and closes the store. The program must return when ctx ends. Run returns
// the program's error joined with the error of closing the store.
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

// Start runs informers until the program returns.
func (s *Session) Start(informers ...*Informer) {
	for _, i := range informers {
		s.informers.Go(func() { i.RunWithContext(s.ctx) })
	}
}

// StartFactories starts the informers that the factories have made so far; they run until the program returns. Call it
// again to start later informers.
func (s *Session) StartFactories(factories ...Factory) {
	s.mu.Lock()
	s.factories = append(s.factories, factories...)
	s.mu.Unlock()
	for _, f := range factories {
		if f, ok := f.(interface{ StartWithContext(context.Context) }); ok {
			f.StartWithContext(s.ctx) // unlike Done, s.ctx carries the logger
			continue
		}
		f.Start(s.ctx.Done())
	}
}

func (s *Session) wait() {
	s.informers.Wait()
	s.mu.Lock()
	factories := s.factories
	s.mu.Unlock()
	for _, f := range factories {
		f.Shutdown() // a factory may be listed twice; its second Shutdown does nothing
	}
}
