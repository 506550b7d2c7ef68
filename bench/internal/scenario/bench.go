package scenario

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// Bench is one benchmark case while it runs, in a separate process.
type Bench struct {
	Case Case
	Kind load.Kind
	// Memory samples this process's memory since the process started.
	Memory *proc.Sampler
	// Ready asks the driver to make the case's changes on the server, and waits until they are made.
	Ready func() error
}

// run starts the informer of the case, calls measure, and stops the informer. If w is not nil, it is registered as
// handler.
func (b *Bench) run(
	ctx context.Context, w *subject.Witness, measure func(r *subject.Running) (Result, error),
) (Result, error) {
	o := subject.Options{Spec: b.Case.Subject, Kind: b.Kind, Config: b.Case.Access.Config(), File: b.Case.File}
	if w != nil {
		o.Handler = w
	}
	r, err := subject.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	result, err := measure(r)
	return result, errors.Join(err, r.Stop())
}

func (b *Bench) witness() *subject.Witness {
	return subject.NewWitness(b.Kind, 0, b.markerKey(), b.Case.Revision)
}

func (b *Bench) markerKey() string { return b.Kind.Key(b.Case.Marker) }

func await(ctx context.Context, what string, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

func (b *Bench) addMemory(result Result) Result {
	peak := b.Memory.Peak()
	result["rss_anon"], result["rss_file"] = float64(peak.Anon), float64(peak.File)
	return result
}

// complete returns an error unless the informer has exactly the objects of the benchmark.
func (b *Bench) complete(r *subject.Running) error {
	held := 0
	for _, key := range r.Informer.GetStore().ListKeys() {
		if _, name, err := cache.SplitMetaNamespaceKey(key); err == nil && b.Kind.Made(name) {
			held++
		}
	}
	if held != b.Case.N {
		return fmt.Errorf("%s holds %d objects, want %d", b.Case.Subject, held, b.Case.N)
	}
	return nil
}

// resumed returns an error if Larder's informer has sent a list. Then the case has not measured a restart from stored
// state.
func (b *Bench) resumed(r *subject.Running) error {
	if r.Larder == nil {
		return nil
	}
	if relists := r.Larder.Status().Reflector.Relists; len(relists) > 0 {
		return fmt.Errorf("larder has listed instead of resuming: %v", relists)
	}
	return nil
}
