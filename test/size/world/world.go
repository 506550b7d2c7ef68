// Package world runs an informer on the fake API server, with one pod and a store file. With it, tests find the
// functions that an event and a restart pass. Call New, then Run once per start of the informer; Change makes the
// event.
package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store"
)

// Names of Larder's calls to its environment (network, codec, file), with which the function note is called.
const (
	Request   = "request" // the reflector sends a list
	Watch     = "watch"
	Transform = "transform"
	Encode    = "encode" // the codec encodes; Decode is its counterpart
	Decode    = "decode"
	Index     = "index"
	Handler   = "handler"
	Commit    = "commit" // a transaction of the file commits
)

// World is the API server and the store file. Its methods are for one goroutine.
type World struct {
	Handled chan struct{}

	server *fakeapi.Server
	path   string
	note   func(what string)
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// New starts the fake API server and keeps the store in dir. For each call that Larder makes to network, codec or file,
// note is called within that call, on any goroutine, with the call's name.
func New(dir string, note func(what string)) (*World, error) {
	w := &World{
		Handled: make(chan struct{}, 10), server: fakeapi.New(fakeapi.Options{}),
		path: filepath.Join(dir, "larder.db"), note: note,
	}
	if err := w.server.Start(); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-1"}}
	if err := w.server.Load(pods, pod); err != nil {
		w.server.Stop()
		return nil, err
	}
	return w, nil
}

// Close stops the server.
func (w *World) Close() { w.server.Stop() }

// Run opens the store, starts an informer, and calls then after the informer's sync and first handler call. Before Run
// returns, it stops the informer, checks the store and closes it.
func (w *World) Run(ctx context.Context, then func(ctx context.Context, st *store.Store) error) (err error) {
	st, err := store.Open(w.path, store.Options{CommitInterval: time.Millisecond, Hooks: &hook.Hooks{Commit: w.commit}})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	var informers sync.WaitGroup
	defer func() {
		cancel()
		informers.Wait()
		err = errors.Join(err, check(ctx, st), st.Close())
	}()
	inf, err := w.informer(st)
	if err != nil {
		return err
	}
	informers.Go(func() { inf.RunWithContext(running) })
	<-w.Handled
	cache.WaitForCacheSync(running.Done(), inf.HasSynced)
	return then(running, st)
}

func (w *World) informer(st *store.Store) (*informer.Informer, error) {
	config := rest.CopyConfig(w.server.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{w, next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	inner, err := codec.For(&corev1.Pod{})
	if err != nil {
		return nil, err
	}
	rest, id := client.CoreV1().RESTClient(), entry.Identity{GroupVersionResource: pods}
	// Without a request builder, the informer sends no requests for metadata. So a restart compares no metadata.
	inf, err := informer.New(requests.ListWatch(rest, id).ListWatch, &corev1.Pod{}, informer.Options{
		Store: st, Identity: id, Codec: notingCodec{inner, w}, TransformVersion: "1",
		Indexers:  cache.Indexers{"none": func(any) ([]string, error) { w.note(Index); return nil, nil }},
		ClusterID: requests.KubeSystemUID(rest),
	})
	if err != nil {
		return nil, err
	}
	if err := inf.SetTransform(func(obj any) (any, error) { w.note(Transform); return obj, nil }); err != nil {
		return nil, err
	}
	handled := func() { w.note(Handler); w.Handled <- struct{}{} }
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled() }, UpdateFunc: func(any, any) { handled() }}
	_, err = inf.AddEventHandler(handler)
	return inf, err
}

func check(ctx context.Context, st *store.Store) error {
	report, err := st.Check(ctx)
	if err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("check: %v", report.Problems)
	}
	return err
}

// Change updates the pod at the server.
func (w *World) Change(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.server.Config())
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	_, err = client.CoreV1().Pods("web").Patch(ctx, "web-1", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (w *World) commit(commit func() error) error {
	w.note(Commit)
	return commit()
}

type roundTripper struct {
	w    *World
	next http.RoundTripper
}

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	switch q := request.URL.Query(); {
	case q.Has("watch"):
		r.w.note(Watch)
	case q.Has("limit"):
		r.w.note(Request)
	}
	return r.next.RoundTrip(request)
}

type notingCodec struct {
	codec.Codec
	w *World
}

func (c notingCodec) Append(dst []byte, obj runtime.Object) ([]byte, error) {
	c.w.note(Encode)
	return c.Codec.Append(dst, obj)
}

func (c notingCodec) Decode(data []byte) (runtime.Object, error) {
	c.w.note(Decode)
	return c.Codec.Decode(data)
}
