package informer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

type recorder struct {
	mu    sync.Mutex
	lines []string
	hook  func(line string)
}

func (r *recorder) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.lines = append(r.lines, line)
	r.mu.Unlock()
	if r.hook != nil {
		r.hook(line)
	}
}

func (r *recorder) OnAdd(obj any, initial bool) {
	if initial {
		r.note("add %s initial", describe(obj))
		return
	}
	r.note("add %s", describe(obj))
}

func (r *recorder) OnUpdate(old, new any) { r.note("update %s to %s", describe(old), describe(new)) }

func (r *recorder) OnDelete(obj any) {
	if u, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		if u.Obj == nil {
			r.note("gone %s", u.Key)
			return
		}
		r.note("gone %s last %s", u.Key, describe(u.Obj))
		return
	}
	r.note("delete %s", describe(obj))
}

// take returns the calls since the last take.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.lines = nil }()
	return r.lines
}

// rig is an informer with a server, and a store in a temporary file. One residency is chosen for the whole test run,
// unless a test sets it.
type rig struct {
	t    *testing.T
	srv  *server
	lw   cache.ListerWatcher // lw is the ListerWatcher of the next informer; nil uses srv
	path string
	o    informer.Options
	so   store.Options // so are the options of the store that the next informer opens
	// unread keeps the method run from reading all objects.
	unread bool

	st     *store.Store
	i      *informer.Informer
	cancel context.CancelFunc
	done   chan struct{}
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, srv: newServer(), path: filepath.Join(t.TempDir(), "larder.db"),
		o: informer.Options{Residency: testresidency.Of(t)}}
}

var podsIdentity = func() entry.Identity {
	return entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
}()

func (r *rig) open() *informer.Informer {
	r.t.Helper()
	quiet := logr.Discard()
	so := r.so
	so.Logger = &quiet
	st, err := store.Open(r.path, so)
	if err != nil {
		r.t.Fatal(err)
	}
	o := r.o
	o.Store = st
	if o.Logger == nil {
		o.Logger = &quiet
	}
	if o.Identity.Resource == "" {
		o.Identity = podsIdentity
	}
	r.st, r.cancel, r.done = st, func() {}, make(chan struct{})
	close(r.done)
	var lw cache.ListerWatcher = r.srv
	if r.lw != nil {
		lw = r.lw
	}
	if r.i, err = informer.New(lw, &corev1.Pod{}, o); err != nil {
		r.t.Fatal(err)
	}
	return r.i
}

// run registers the handlers, starts the informer, and waits until all goroutines are blocked. Then it reads all
// objects, unless the field unread is set.
func (r *rig) run(handlers ...cache.ResourceEventHandler) {
	r.t.Helper()
	for _, h := range handlers {
		if _, err := r.i.AddEventHandler(h); err != nil {
			r.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.cancel, r.done = cancel, done
	i := r.i
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	synctest.Wait()
	if r.unread {
		return
	}
	for _, key := range i.GetIndexer().ListKeys() {
		// The read finds damaged records. Its error is ignored, because a test's store may fail.
		_, _, _ = i.GetIndexer().GetByKey(key)
	}
}

func (r *rig) stop() {
	r.cancel()
	<-r.done
}

// close ends the informer's run, checks the integrity of the store file and closes it.
func (r *rig) close() {
	r.t.Helper()
	r.stop()
	report, err := r.st.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		r.t.Errorf("Check: %v, %q", err, report.Problems)
	}
	if err := r.st.Close(); err != nil {
		r.t.Errorf("close the store: %v", err)
	}
}

func (r *rig) start(handlers ...cache.ResourceEventHandler) *informer.Informer {
	r.t.Helper()
	i := r.open()
	r.run(handlers...)
	return i
}

// stored returns key@resourceVersion=value of each stored object. It also checks that reads by key return the objects
// of a list.
func (r *rig) stored() (out []string) {
	objs, err := informer.Store(r.i).List(context.Background())
	if err != nil {
		r.t.Errorf("read the store: %v", err)
	}
	for _, obj := range objs {
		out = append(out, describe(obj))
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			r.t.Error(err)
		}
		switch got, err := informer.Store(r.i).Get(context.Background(), key); {
		case err != nil || got == nil:
			r.t.Errorf("%s is listed, but Get says %v, %v", describe(obj), got, err)
		case describe(got) != describe(obj):
			r.t.Errorf("%s is listed, but Get has %s", describe(obj), describe(got))
		}
	}
	slices.Sort(out)
	return out
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// bubble runs fn in a synctest bubble: fake time advances when all goroutines are blocked.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}
