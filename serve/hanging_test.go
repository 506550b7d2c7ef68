package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hanging is a Source on a disk that hangs: reads return only once released is closed.
type hanging struct {
	Source
	reads    chan struct{}
	released chan struct{}
}

func (s hanging) collections(context.Context) ([]described, error) {
	s.reads <- struct{}{}
	<-s.released
	return nil, nil
}

func (s hanging) Documents(context.Context) ([]string, error) { return nil, nil }

func (s hanging) Document(context.Context, string) ([]byte, error) { return nil, nil }

// TestHangingDisk checks that requests end with their context while a disk hangs (issue 37).
func TestHangingDisk(t *testing.T) {
	for name, read := range map[string]func(Source) func(context.Context) error{
		"withheld": func(s Source) func(context.Context) error {
			withheld := Withheld(s)
			return func(ctx context.Context) error {
				_, err := withheld(ctx, schema.GroupResource{Resource: "pods"})
				return err
			}
		},
		"catalog": func(s Source) func(context.Context) error {
			c := &catalog{source: s, gate: newGate(), now: time.Now}
			return func(ctx context.Context) error {
				_, err := c.all(ctx)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := hanging{reads: make(chan struct{}, 2), released: make(chan struct{})}
			ask := read(s)
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- ask(t.Context()) }()
			<-s.reads
			ctx, cancel := context.WithCancel(t.Context())
			go func() { second <- ask(ctx) }()
			cancel()
			select {
			case err := <-second:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the second request: %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("a request waits for a disk that hangs, beyond its context")
			}
			close(s.released)
			if err := <-first; err != nil {
				t.Errorf("the first request: %v", err)
			}
			if err := ask(t.Context()); err != nil {
				t.Errorf("a later request: %v", err)
			}
		})
	}
}
