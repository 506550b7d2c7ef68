package metrics

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	fakecache "k8s.io/client-go/tools/cache/testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

var quiet = logr.Discard()

type script struct {
	*fakecache.FakeControllerSource
	mu   sync.Mutex
	fail func(verb string) error // mu guards fail, which returns the error for a request; may be nil.
}

func (s *script) setFail(fn func(verb string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fn
}

func (s *script) failure(verb string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		return nil
	}
	return s.fail(verb)
}

func (s *script) List(o metav1.ListOptions) (runtime.Object, error) {
	if err := s.failure("list"); err != nil {
		return nil, err
	}
	return s.FakeControllerSource.List(o)
}

func (s *script) Watch(o metav1.ListOptions) (watch.Interface, error) {
	if err := s.failure("watch"); err != nil {
		return nil, err
	}
	return s.FakeControllerSource.Watch(o)
}

// rig has informers on one scripted API server and one file.
type rig struct {
	t      *testing.T
	m      *Metrics
	reg    *prometheus.Registry
	source *script
	path   string
	o      store.Options
	file   *store.Store
	stops  []func()
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, m: New(), reg: prometheus.NewPedanticRegistry(),
		source: &script{FakeControllerSource: fakecache.NewFakeControllerSource()},
		path:   filepath.Join(t.TempDir(), "larder.db"), o: store.Options{Logger: &quiet},
	}
	r.reg.MustRegister(r.m)
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.file, err = store.Open(r.path, r.o); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	r.t.Helper()
	r.stop()
	r.source.Shutdown()
	r.closeFile()
}

func (r *rig) closeFile() {
	r.t.Helper()
	if err := r.file.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) stop() {
	for _, stop := range r.stops {
		stop()
	}
	r.stops = nil
}

func identity(namespace string) entry.Identity {
	id, err := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: namespace}.Canonical()
	if err != nil {
		panic(err)
	}
	return id
}

func (r *rig) inform(o informer.Options) *informer.Informer {
	r.t.Helper()
	o.Store, o.Logger, o.Observer = r.file, &quiet, r.m
	if o.Identity.Resource == "" {
		o.Identity = identity("")
	}
	i, err := informer.New(r.source, &corev1.Pod{}, o)
	if err == nil {
		err = i.SetWatchErrorHandler(func(*cache.Reflector, error) {})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

func (r *rig) run(i *informer.Informer, handlers ...cache.ResourceEventHandler) (stop func()) {
	r.t.Helper()
	for _, h := range handlers {
		if _, err := i.AddEventHandlerWithOptions(h, cache.HandlerOptions{Logger: &quiet}); err != nil {
			r.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { i.RunWithContext(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	r.stops = append(r.stops, stop)
	synctest.Wait()
	return stop
}

// samples returns the samples of these metrics that are not 0, without the labels common to all samples.
func (r *rig) samples(names ...string) (out []string) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			value := fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprintf("%d of %v", h.GetSampleCount(), h.GetSampleSum())
			}
			if value != "0" {
				out = append(out, f.GetName()+distinct(m)+" "+value)
			}
		}
	}
	return out
}

// distinct returns the values of the labels that differ between a test's samples.
func distinct(m *dto.Metric) (labels string) {
	for _, l := range m.GetLabel() {
		if !slices.Contains([]string{"collection", "group", "resource", "version"}, l.GetName()) && l.GetValue() != "" {
			labels += " " + l.GetValue()
		}
	}
	return labels
}

func (r *rig) expect(what string, want ...string) {
	r.t.Helper()
	var names []string
	for _, line := range want {
		names = append(names, strings.Fields(line)[0])
	}
	if got := r.samples(names...); !slices.Equal(got, want) {
		r.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func (r *rig) absent(what string, names ...string) {
	r.t.Helper()
	if got := r.samples(names...); len(got) > 0 {
		r.t.Errorf("%s: %q", what, got)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
}

type sleeper struct{}

func (sleeper) OnAdd(any, bool)   { time.Sleep(500 * time.Millisecond) }
func (sleeper) OnUpdate(_, _ any) { time.Sleep(500 * time.Millisecond) }
func (sleeper) OnDelete(any)      { time.Sleep(500 * time.Millisecond) }

func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}
