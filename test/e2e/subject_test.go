package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

// file is the store file of a test, which the test opens and closes repeatedly.
type file struct {
	path string
	*store.Store
}

func newFile(t *testing.T) *file {
	t.Helper()
	return &file{path: filepath.Join(t.TempDir(), "larder.db")}
}

func (f *file) open(t *testing.T) {
	t.Helper()
	s, err := store.Open(f.path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Store = s
	t.Cleanup(func() { f.close(t) })
}

func (f *file) close(t *testing.T) {
	t.Helper()
	if f.Store == nil {
		return
	}
	if err := f.Store.Close(); err != nil {
		t.Errorf("closing the store: %v", err)
	}
	f.Store = nil
}

type stored struct {
	entry.Info
	objects objects
}

// read opens the file for reading, checks all of it, and returns one collection.
func (f *file) read(t *testing.T, id entry.Identity, example runtime.Object) stored {
	t.Helper()
	s, err := store.Open(f.path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := s.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("check of %s: %v %q", f.path, err, report.Problems)
	}
	codec, err := codec.For(example)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Collection(t.Context(), id, store.CollectionOptions{Codec: codec})
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := stored{Info: info, objects: objects{}}
	for _, obj := range list {
		out.objects.put(t, obj)
	}
	return out
}

// subject is an informer under test, with a handler that keeps a list of its calls.
type subject struct {
	*informer.Informer
	*recorder
	source source
	file   *file
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// start runs an informer on the source, with its store in the file, until the informer is stopped. The informer has the
// residency of the test run, unless change sets another.
func (f *file) start(t *testing.T, src source, change ...func(*informer.Options)) *subject {
	t.Helper()
	if f.Store == nil {
		f.open(t)
	}
	o := informer.Options{Store: f.Store, Identity: src.identity, Residency: testresidency.Of(t)}
	for _, c := range change {
		c(&o)
	}
	i, err := informer.New(src.lw, src.example, o)
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{Informer: i, recorder: &recorder{}, source: src, file: f}
	if _, err := i.AddEventHandler(s.recorder); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.done.Go(func() { i.RunWithContext(ctx) })
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *subject) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	s.done.Wait()
	if !s.IsStopped() {
		t.Error("Run has returned, but IsStopped is false")
	}
}

func (s *subject) sync(t *testing.T) {
	t.Helper()
	eventually(t, "HasSynced", func() string {
		if s.HasSynced() {
			return ""
		}
		return errText(s.Status().Err)
	})
}

func (s *subject) converge(t *testing.T, want objects) {
	t.Helper()
	eventually(t, "converging", func() string {
		problem := want.diff(s.held(t))
		if err := s.Status().Err; problem != "" && err != nil {
			problem += " (" + err.Error() + ")"
		}
		return problem
	})
}

func (s *subject) held(t *testing.T) objects {
	t.Helper()
	out := objects{}
	for _, obj := range s.GetStore().List() {
		out.put(t, obj.(runtime.Object))
	}
	return out
}

func errText(err error) string {
	if err == nil {
		return "not yet, and there is no error"
	}
	return err.Error()
}

func (f *file) run(t *testing.T, src source, change ...func(*informer.Options)) (*subject, stored) {
	t.Helper()
	s := f.start(t, src, change...)
	s.sync(t)
	s.stop(t)
	f.close(t)
	return s, f.read(t, src.identity, src.example)
}

var errNoObject = errors.New("the tombstone carries no object")

// lastState returns the object that a handler received with a delete. It also reports whether the object came in a
// cache.DeletedFinalStateUnknown.
func lastState(obj any) (runtime.Object, bool, error) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		o, ok := d.Obj.(runtime.Object)
		if !ok {
			return nil, true, errNoObject
		}
		return o, true, nil
	}
	return obj.(runtime.Object), false, nil
}

func (s *subject) info(t *testing.T) entry.Info {
	t.Helper()
	all, err := s.file.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range all {
		if info.Identity == s.source.identity {
			return info
		}
	}
	t.Fatalf("the file has no collection for %+v", s.source.identity)
	return entry.Info{}
}
