package main

import (
	"context"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store"
)

// TestStacks sends an event through an informer, and starts it again, and takes the call stack wherever Larder calls
// what this test has given it. From the first function that is in the list on, each function of a stack must be in the
// list, in the order of the list: no step between two listed ones can be left out there.
func TestStacks(t *testing.T) {
	root, walks := pageOf(t)
	c, err := readCode(root)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, c)
	w.run(t, func(ctx context.Context, st *store.Store) {
		if err := st.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		w.record()
		w.change(ctx, t)
		<-w.told
		for next := st.Committed(); !w.has("commit"); next = st.Committed() {
			<-next
		}
	})
	compare(t, w.take(), walks[0], "transform", "encode", "index", "handler")
	compare(t, w.take(), walks[1], "commit")
	w.record()
	w.run(t, func(context.Context, *store.Store) {})
	compare(t, w.take(), walks[2], "commit", "decode", "request", "watch", "handler")
}

func compare(t *testing.T, stacks map[string][]string, w *Walk, names ...string) {
	t.Helper()
	for _, name := range names {
		stack := stacks[name]
		at := slices.IndexFunc(stack, func(f string) bool { return slices.Contains(w.functions(), f) })
		if at < 0 {
			t.Errorf("%s: the stack at the %s has no function of the list: %q", w.Name, name, stack)
			continue
		}
		row := 0
		for i, f := range stack[at:] {
			if slices.Contains(stack[at:at+i], f) {
				continue // a function within it, which another one has called
			}
			n := slices.IndexFunc(w.Steps[row:], func(s Step) bool { return s.Function == f })
			if n < 0 {
				t.Errorf("%s: %s is passed before the %s, and is not in the list, or not after %s.\nThe stack: %s",
					w.Name, f, name, w.Steps[max(row-1, 0)].Function, strings.Join(stack[at:], " → "))
				break
			}
			row += n + 1
		}
	}
}

// world is an API server with a pod, a file for a store, and the stacks that were seen.
type world struct {
	code   *code
	server *fakeapi.Server
	path   string
	told   chan struct{} // a handler has been called

	mu   sync.Mutex
	seen map[string][]string // by what was called, outermost first; the first call counts
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

func newWorld(t *testing.T, c *code) *world {
	t.Helper()
	w := &world{
		code: c, server: fakeapi.New(fakeapi.Options{}),
		path: filepath.Join(t.TempDir(), "larder.db"), told: make(chan struct{}, 10),
	}
	if err := w.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.server.Stop)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-1"}}
	if err := w.server.Load(pods, pod); err != nil {
		t.Fatal(err)
	}
	return w
}

// run opens the store, and calls then when an informer on it has synced and its handler has been told of the pod.
func (w *world) run(t *testing.T, then func(ctx context.Context, st *store.Store)) {
	t.Helper()
	st, err := store.Open(w.path, store.Options{CommitInterval: time.Millisecond, Hooks: &hook.Hooks{Commit: w.commit}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
		if report, err := st.Check(context.Background()); err != nil || len(report.Problems) > 0 {
			t.Errorf("check: %v, %v", report, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	config := rest.CopyConfig(w.server.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{w, next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	id := entry.Identity{GroupVersionResource: pods}
	inf, err := informer.New(informer.ListWatch(client.CoreV1().RESTClient(), id), &corev1.Pod{}, informer.Options{
		Store: st, Identity: id, Codec: notingCodec{inner, w}, TransformVersion: "1",
		Indexers:  cache.Indexers{"none": func(any) ([]string, error) { w.note("index"); return nil, nil }},
		ClusterID: informer.KubeSystemUID(client.CoreV1().RESTClient()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.SetTransform(func(obj any) (any, error) { w.note("transform"); return obj, nil }); err != nil {
		t.Fatal(err)
	}
	handle := func() { w.note("handler"); w.told <- struct{}{} }
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { handle() }, UpdateFunc: func(any, any) { handle() }}
	if _, err := inf.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	running.Go(func() { inf.RunWithContext(ctx) })
	<-w.told
	cache.WaitForCacheSync(ctx.Done(), inf.HasSynced)
	then(ctx, st)
}

// change changes the pod at the server, with a client of its own.
func (w *world) change(ctx context.Context, t *testing.T) {
	t.Helper()
	client, err := kubernetes.NewForConfig(w.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	_, err = client.CoreV1().Pods("web").Patch(ctx, "web-1", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// record begins to note.
func (w *world) record() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = map[string][]string{}
}

func (w *world) has(name string) bool { return w.take()[name] != nil }

func (w *world) take() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string][]string{}
	for name, stack := range w.seen {
		all[name] = stack
	}
	return all
}

// givenToLarder are functions that call what this test has given them.
var givenToLarder = []string{"store.hooksOf", "informer.ListWatch"}

// note notes the functions of the library that have led to a call of what is named.
func (w *world) note(name string) {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var stack []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		file := strings.TrimPrefix(strings.TrimPrefix(f.File, modulePath+"/"), w.code.root+"/")
		if fn := w.code.at(file, f.Line); fn != "" && !slices.Contains(givenToLarder, fn) {
			stack = append(stack, fn)
		}
	}
	slices.Reverse(stack)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen != nil && w.seen[name] == nil {
		w.seen[name] = slices.Compact(stack)
	}
}

func (w *world) commit(commit func() error) error {
	w.note("commit")
	return commit()
}

type roundTripper struct {
	w    *world
	next http.RoundTripper
}

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	switch q := request.URL.Query(); {
	case q.Has("watch"):
		r.w.note("watch")
	case q.Has("limit"):
		r.w.note("request")
	}
	return r.next.RoundTrip(request)
}

type notingCodec struct {
	codec.Codec
	w *world
}

func (c notingCodec) Append(dst []byte, obj k8sruntime.Object) ([]byte, error) {
	c.w.note("encode")
	return c.Codec.Append(dst, obj)
}

func (c notingCodec) Decode(data []byte) (k8sruntime.Object, error) {
	c.w.note("decode")
	return c.Codec.Decode(data)
}
