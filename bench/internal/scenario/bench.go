package scenario

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/store"
)

// start starts the subject of the case.
func (b *Bench) start(ctx context.Context, handler cache.ResourceEventHandler) (*subject.Running, error) {
	return subject.Start(ctx, subject.Options{
		Spec: b.Case.Subject, Kind: b.Kind, Config: b.Case.Access.Config(), File: b.Case.File, Handler: handler,
	})
}

// larder reports whether the subject is Larder.
func (b *Bench) larder() bool { return b.Case.Subject.Library == subject.Larder }

// markerKey is the key of the object that is changed last.
func (b *Bench) markerKey() string { return b.Kind.Key(b.Case.Marker) }

// complete returns an error unless the informer holds every object that was made.
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

// resumed returns an error if Larder has listed: then what was measured is no restart.
func (b *Bench) resumed(r *subject.Running) error {
	if r.Larder == nil {
		return nil
	}
	if s := r.Larder.Status(); len(s.Reflector.Relists) > 0 {
		return fmt.Errorf("larder has listed instead of resuming: %v", s.Reflector.Relists)
	}
	return nil
}

// memory adds the peaks of this process.
func (b *Bench) memory(result Result) {
	peak := b.Memory.Peak()
	result["rss_anon"], result["rss_file"] = float64(peak.Anon), float64(peak.File)
}

// written counts what is written from now on: by the store's own account, and by the kernel's, which knows of everything that the process
// writes, and of nothing on a file system in memory.
type written struct {
	store     *store.Store
	bytes, io int64
}

func countWritten(s *store.Store) (written, error) {
	io, err := proc.WrittenBytes()
	return written{store: s, bytes: s.Written(), io: io}, err
}

// add adds what has been written since, divided by a number of events, under keys with a suffix.
func (w written) add(result Result, suffix string, events int) error {
	io, err := proc.WrittenBytes()
	result["written"+suffix] = float64(w.store.Written()-w.bytes) / float64(events)
	result["io"+suffix] = float64(io-w.io) / float64(events)
	return err
}

// finish stops the informer and joins what went wrong.
func finish(r *subject.Running, result Result, errs ...error) (Result, error) {
	return result, errors.Join(append(errs, r.Stop())...)
}

// await waits for something that a handler notices.
func await(ctx context.Context, what string, told <-chan struct{}) error {
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

// metrics that several scenarios have.
var (
	bytesMetric   = Metric{Key: "bytes", Title: "bytes received", Unit: Bytes}
	rssAnonMetric = Metric{Key: "rss_anon", Title: "peak RssAnon", Unit: Bytes}
	rssFileMetric = Metric{Key: "rss_file", Title: "peak of mapped pages", Unit: Bytes}
)

// linear estimates a case that takes so long, and so much more for each 10,000 objects.
func linear(base, per10k float64) func(Case) float64 {
	return func(c Case) float64 {
		if c.Subject.Dynamic {
			return base + 5*per10k*float64(c.N)/10_000
		}
		return base + per10k*float64(c.N)/10_000
	}
}
