package field

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// proxy forwards requests to the API server. A trial can make it change requests and answers.
type proxy struct {
	*httptest.Server

	mu      sync.Mutex
	changes changes  // mu guards the fields below
	watched []string // resourceVersion of each requested watch
	queries []string // the encoded query of each request
}

// changes are the functions with which the proxy modifies requests and answers. A nil function modifies nothing.
type changes struct {
	event func(e event) []event // returns the events to send in place of e
	list  func(list map[string]any)
	cut   func(body []byte) []byte // truncates the body of a list, under the old Content-Length
	ask   func(query url.Values)
	away  bool // closes each connection without an answer
	// refuse may answer a request in the server's place. It returns true if it has answered.
	refuse func(w http.ResponseWriter, r *http.Request) bool
}

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

type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// newProxy returns a proxy, not started, to the server of config, with config's credentials.
func newProxy(config *rest.Config) (*proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &proxy{}
	reverse := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ModifyResponse: p.change}
	reverse.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Accept-Encoding")
		query := r.Out.URL.Query()
		p.note(query)
		if ask := p.current().ask; ask != nil {
			ask(query)
			r.Out.URL.RawQuery = query.Encode()
		}
	}
	reverse.ErrorLog = log.New(io.Discard, "", 0)
	reverse.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := p.current()
		if c.away {
			panic(http.ErrAbortHandler)
		}
		if c.refuse != nil && c.refuse(w, r) {
			return
		}
		reverse.ServeHTTP(w, r)
	}))
	return p, nil
}

func (p *proxy) note(query url.Values) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries = append(p.queries, query.Encode())
	if query.Get("watch") != "" {
		p.watched = append(p.watched, query.Get("resourceVersion"))
	}
}

// disconnect closes all connections, and makes the server unreachable until set is called.
func (p *proxy) disconnect() {
	p.set(changes{away: true})
	p.CloseClientConnections()
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

func (p *proxy) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.watched)
}

func (p *proxy) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.queries)
}

// Server is an API server for the trials.
type Server interface {
	Config() *rest.Config
	// LoseHistory drops the server's watch history: the server then answers watches from older resourceVersions with 410.
	LoseHistory(t *testing.T)
}

// World is the environment of a trial: an API server without pods, and a store file that outlives its informers.
type World struct {
	*testing.T
	server Server
	client kubernetes.Interface
	proxy  *proxy
	config *rest.Config // client configuration whose requests go through the proxy
	path   string
}

// NewWorld returns the environment of one test. The test's cleanup deletes all pods.
func NewWorld(t *testing.T, server Server) *World {
	w := &World{T: t, server: server, path: filepath.Join(t.TempDir(), "larder.db")}
	config := rest.CopyConfig(server.Config())
	config.QPS, config.ContentType, config.AcceptContentTypes = -1, "application/json", "application/json"
	var err error
	w.client, err = kubernetes.NewForConfig(config)
	w.must(err)
	t.Cleanup(w.clean)
	w.proxy, err = newProxy(config)
	w.must(err)
	w.proxy.Start()
	t.Cleanup(w.proxy.Close)
	t.Cleanup(w.proxy.CloseClientConnections)
	w.config = &rest.Config{Host: w.proxy.URL, QPS: -1}
	w.config.ContentType, w.config.AcceptContentTypes = config.ContentType, config.AcceptContentTypes
	return w
}

func (w *World) direct() *rest.Config {
	config := rest.CopyConfig(w.server.Config())
	config.QPS = -1
	return config
}

func (w *World) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// These annotations stand for a pod's IP address and container, so that a single request can write them.
const (
	annotationIP        = "field.larder.dev/ip"
	annotationContainer = "field.larder.dev/container"
)

func pod(namespace, name, ip, container string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
			annotationIP: ip, annotationContainer: container}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "pause"}}},
	}
}

func (w *World) clean() {
	now := int64(0)
	ctx := context.Background()
	all, err := w.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	for n := 0; err == nil && n < len(all.Items); n++ {
		err = w.client.CoreV1().Pods(all.Items[n].Name).DeleteCollection(
			ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	}
	if err != nil {
		w.Error(err)
	}
}

func (w *World) create(p *corev1.Pod) {
	w.Helper()
	w.must(w.created(p))
}

// created creates a pod, and its namespace if that is missing. It returns the error instead of failing the test.
func (w *World) created(p *corev1.Pod) error {
	core := w.client.CoreV1()
	_, err := core.Pods(p.Namespace).Create(w.Context(), p, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = core.Namespaces().Create(w.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = core.Pods(p.Namespace).Create(w.Context(), p, metav1.CreateOptions{})
	}
	return err
}

func (w *World) update(p *corev1.Pod) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": p.Annotations}})
	w.must(err)
	_, err = w.client.CoreV1().Pods(p.Namespace).Patch(
		w.Context(), p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	w.must(err)
}

func (w *World) delete(namespace, name string) {
	w.Helper()
	w.must(w.deleted(namespace, name))
}

func (w *World) deleted(namespace, name string) error {
	now := int64(0)
	return w.client.CoreV1().Pods(namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

type run struct {
	*informer.Informer
	w     *World
	calls *calls
	stop  func()
}

// calls is an event handler that keeps a list of its calls, in order.
type calls struct {
	mu  sync.Mutex
	got []string // mu guards got
}

func (c *calls) note(what string, obj any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	p := obj.(*corev1.Pod)
	c.got = append(c.got, fmt.Sprintf("%s %s/%s=%s", what, p.Namespace, p.Name, p.Annotations[annotationIP]))
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

// start starts an informer of all pods on the store file, and waits for its sync. edit may change the informer's
// options. The method stop of the result ends the informer.
func (w *World) start(edit func(*informer.Options)) *run {
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

func (w *World) startOn(st *store.Store, config *rest.Config, namespace string, edit func(*informer.Options)) *run {
	w.Helper()
	client, err := kubernetes.NewForConfig(config)
	w.must(err)
	core, quiet := client.CoreV1().RESTClient(), logr.Discard()
	o := informer.Options{
		Store: st, Identity: entry.Identity{GroupVersionResource: pods, Namespace: namespace}, Logger: &quiet,
		ClusterID: requests.KubeSystemUID(core), Indexers: cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"ip":                 func(obj any) ([]string, error) { return annotation(obj, annotationIP), nil },
			"container":          func(obj any) ([]string, error) { return annotation(obj, annotationContainer), nil },
		},
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

func annotation(obj any, key string) []string {
	if value, ok := obj.(*corev1.Pod).Annotations[key]; ok {
		return []string{value}
	}
	return nil
}

func (r *run) found(index, value string) []string {
	keys, err := r.GetIndexer().IndexKeys(index, value)
	if err != nil {
		r.w.Error(err)
	}
	slices.Sort(keys)
	return keys
}

func (r *run) saw(line string) {
	r.w.Helper()
	r.w.eventually(func() bool { return r.calls.has(line) }, func() string {
		return fmt.Sprintf("no call %q in %q; %+v", line, r.calls.all(), r.Status())
	})
}

func (w *World) eventually(done func() bool, what func() string) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal(what())
		}
	}
}
