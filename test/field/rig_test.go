package field_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// proxy stands between the informer and the API server, and may change what passes.
type proxy struct {
	*httptest.Server

	mu      sync.Mutex
	changes changes  // guarded by mu
	watched []string // guarded by mu: resourceVersion of each watch
}

// changes are what a proxy changes; nil changes nothing.
type changes struct {
	event func(e event) []event     // returns what is sent in place of an event
	list  func(list map[string]any) // changes a list
	cut   func(body []byte) []byte  // returns the bytes of a list whose Content-Length stays
	ask   func(query url.Values)    // changes a query
}

// set makes the proxy change answers from now on.
func (p *proxy) set(c changes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = c
}

func (p *proxy) current() changes {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// event is an event of a watch.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

func newProxy(api *fakeapi.Server) *proxy {
	p := &proxy{}
	target, _ := url.Parse(api.Config().Host)
	reverse := &httputil.ReverseProxy{}
	reverse.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Accept-Encoding")
		query := r.Out.URL.Query()
		if query.Get("watch") != "" {
			p.mu.Lock()
			p.watched = append(p.watched, query.Get("resourceVersion"))
			p.mu.Unlock()
		}
		if ask := p.current().ask; ask != nil {
			ask(query)
			r.Out.URL.RawQuery = query.Encode()
		}
	}
	reverse.FlushInterval = -1
	reverse.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	reverse.ModifyResponse = p.change
	p.Server = httptest.NewUnstartedServer(reverse)
	return p
}

func (p *proxy) change(r *http.Response) error {
	query, c := r.Request.URL.Query(), p.current()
	switch {
	case r.StatusCode != http.StatusOK:
	case query.Get("watch") != "" && c.event != nil:
		in, out := r.Body, (*io.PipeWriter)(nil)
		r.Body, out = io.Pipe()
		go func() {
			lines := bufio.NewScanner(in)
			lines.Buffer(nil, 1<<24)
			for lines.Scan() {
				var e event
				if json.Unmarshal(lines.Bytes(), &e) != nil {
					break
				}
				for _, sent := range c.event(e) {
					line, _ := json.Marshal(sent)
					if _, err := out.Write(append(line, '\n')); err != nil {
						_ = in.Close()
					}
				}
			}
			_ = out.Close()
		}()
	case query.Get("watch") == "" && query.Get("limit") != "" && c.cut != nil:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.ContentLength = int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		r.Body = io.NopCloser(bytes.NewReader(c.cut(body)))
	case query.Get("watch") == "" && c.list != nil:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		var list map[string]any
		if json.Unmarshal(body, &list) == nil && list["items"] != nil {
			c.list(list)
			body, _ = json.Marshal(list)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

// asked returns the resourceVersions of the watches.
func (p *proxy) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.watched)
}

// world is an API server with pods, and a store that outlives its informers.
type world struct {
	*testing.T
	api    *fakeapi.Server
	proxy  *proxy
	config *rest.Config
	path   string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, api: fakeapi.New(fakeapi.Options{}), path: filepath.Join(t.TempDir(), "larder.db")}
	w.must(w.api.Start())
	t.Cleanup(w.api.Stop)
	w.proxy = newProxy(w.api)
	w.proxy.Start()
	t.Cleanup(w.proxy.Close)
	t.Cleanup(w.proxy.CloseClientConnections)
	w.config = &rest.Config{Host: w.proxy.URL, QPS: -1}
	w.config.ContentType, w.config.AcceptContentTypes = "application/json", "application/json"
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pod returns a pod with an IP address and a container.
func pod(namespace, name, ip, container string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status: corev1.PodStatus{PodIP: ip, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "c", ContainerID: container}}},
	}
}

func (w *world) create(p *corev1.Pod) {
	w.Helper()
	_, err := w.api.Create(pods, p)
	w.must(err)
}

func (w *world) update(p *corev1.Pod) {
	w.Helper()
	_, err := w.api.Update(pods, p)
	w.must(err)
}

func (w *world) delete(namespace, name string) {
	w.Helper()
	w.must(w.api.Delete(pods, namespace, name))
}

// run is an informer of a world.
type run struct {
	*informer.Informer
	w     *world
	calls *calls
	stop  func()
}

// calls has the calls of a handler, in order.
type calls struct {
	mu  sync.Mutex
	got []string // guarded by mu
}

func (c *calls) note(what string, obj any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	p := obj.(*corev1.Pod)
	c.got = append(c.got, fmt.Sprintf("%s %s/%s=%s", what, p.Namespace, p.Name, p.Status.PodIP))
}

func (c *calls) OnAdd(obj any, _ bool) { c.note("add", obj) }
func (c *calls) OnUpdate(_, new any)   { c.note("update", new) }
func (c *calls) OnDelete(obj any)      { c.note("delete", obj) }
func (c *calls) has(line string) bool  { return slices.Contains(c.all(), line) }
func (c *calls) count(line string) (n int) {
	for _, l := range c.all() {
		if l == line {
			n++
		}
	}
	return n
}

func (c *calls) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = nil
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// start runs an informer of all pods, or of a namespace's, until stop, and waits for its sync.
func (w *world) start(edit func(*informer.Options)) *run {
	w.Helper()
	st, err := store.Open(w.path, store.Options{})
	w.must(err)
	r := w.startOn(st, w.config, "", edit)
	stop := r.stop
	r.stop = sync.OnceFunc(func() {
		stop()
		storetest.Check(w, st)
		w.must(st.Close())
	})
	w.Cleanup(r.stop)
	w.eventually(r.HasSynced, func() string { return fmt.Sprintf("not synced: %+v", r.Status()) })
	return r
}

func (w *world) startOn(st *store.Store, config *rest.Config, namespace string, edit func(*informer.Options)) *run {
	w.Helper()
	client, err := kubernetes.NewForConfig(config)
	w.must(err)
	core, quiet := client.CoreV1().RESTClient(), logr.Discard()
	o := informer.Options{
		Store: st, Identity: entry.Identity{GroupVersionResource: pods, Namespace: namespace}, Logger: &quiet,
		ClusterID: requests.KubeSystemUID(core), Indexers: cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"ip":                 func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Status.PodIP}, nil },
			"container": func(obj any) (ids []string, _ error) {
				for _, s := range obj.(*corev1.Pod).Status.ContainerStatuses {
					ids = append(ids, s.ContainerID)
				}
				return ids, nil
			}},
	}
	if edit != nil {
		edit(&o)
	}
	i, err := informer.New(requests.ListWatch(core, o.Identity), &corev1.Pod{}, o)
	w.must(err)
	r := &run{Informer: i, w: w, calls: &calls{}}
	_, err = i.AddEventHandler(r.calls)
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { i.RunWithContext(ctx) })
	r.stop = func() {
		cancel()
		wg.Wait()
	}
	return r
}

// found returns the keys under a value of an index.
func (r *run) found(index, value string) []string {
	keys, err := r.GetIndexer().IndexKeys(index, value)
	if err != nil {
		r.w.Error(err)
	}
	slices.Sort(keys)
	return keys
}

// saw waits for a call of the handler.
func (r *run) saw(line string) {
	r.w.Helper()
	r.w.eventually(func() bool { return r.calls.has(line) }, func() string {
		return fmt.Sprintf("no call %q in %q; %+v", line, r.calls.all(), r.Status())
	})
}

// eventually waits until done, for a minute at most.
func (w *world) eventually(done func() bool, what func() string) {
	w.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal(what())
		}
	}
}
