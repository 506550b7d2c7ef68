package serve_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
)

type slowWatch struct {
	http.RoundTripper
	held *sync.RWMutex
}

func (s slowWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		answer.Body = slowBody{answer.Body, s.held}
	}
	return answer, err
}

type slowBody struct {
	io.ReadCloser
	held *sync.RWMutex
}

func (b slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.held.RLock()
	defer b.held.RUnlock()
	return n, err
}

// newForwardingWorld returns a world whose server forwards to its API server, with a client of that server. While the
// returned lock is held, the mirror receives no events.
func newForwardingWorld(t *testing.T) (w *world, client kubernetes.Interface, held *sync.RWMutex) {
	t.Helper()
	w, held = newUpstream(t, 1<<20), &sync.RWMutex{}
	w.link = func(next http.RoundTripper) http.RoundTripper { return slowWatch{next, held} }
	forward, err := serve.Forward(w.upstream.Config(), noUsers{})
	must(t, err)
	w.start(func(_ *entry.Identity, o *serve.Options) { o.Forward = forward })
	t.Cleanup(func() { w.close() })
	w.config.BearerToken = "theirs"
	return w, w.client(), held
}

// TestReadsOwnWrites checks that a get and a list after a forwarded write see the write although the mirror lags. The
// reads wait for the mirror, and are forwarded if that takes too long (issue 38, F.29).
func TestReadsOwnWrites(t *testing.T) {
	w, client, held := newForwardingWorld(t)
	w.fill(2)
	pods := client.CoreV1().Pods("a")
	get := func() string {
		p, err := pods.Get(t.Context(), "own", metav1.GetOptions{})
		if err != nil {
			return string(apierrors.ReasonForError(err))
		}
		return p.Labels["step"]
	}
	list := func() string {
		all, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "step"})
		switch {
		case err != nil:
			return err.Error()
		case len(all.Items) == 0:
			return "NotFound"
		}
		return all.Items[0].Labels["step"]
	}
	label := func(step string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"step":%q}}}`, step)
		_, err := pods.Patch(t.Context(), "own", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	for _, step := range []struct {
		name  string
		write func() error
		read  func() string
		want  string
		// late is true if the mirror receives the write only after the read was answered.
		late bool
	}{
		{"created", func() error {
			p := newPod("a", "own")
			p.Labels["step"] = "created"
			_, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
			return err
		}, get, "created", false},
		{"patched", func() error { return label("patched") }, get, "patched", false},
		{"listed", func() error { return label("listed") }, list, "listed", false},
		{"twice", func() error { _ = label("once"); return label("twice") }, get, "twice", false},
		{"never", func() error { return label("never") }, list, "never", true},
		{"deleted", func() error { return pods.Delete(t.Context(), "own", metav1.DeleteOptions{}) }, get, "NotFound", true},
	} {
		held.Lock()
		must(t, step.write())
		read := make(chan string, 1)
		go func() { read <- step.read() }()
		got := ""
		if step.late {
			got = <-read
			held.Unlock()
		} else {
			select {
			case got = <-read: // the API server's state, or an older one
			case <-time.After(100 * time.Millisecond):
			}
			held.Unlock()
			if got == "" {
				got = <-read
			}
		}
		if got != step.want {
			t.Errorf("%s: read %q", step.name, got)
		}
		w.caughtUp()
	}
}

type byNamespace struct {
	http.RoundTripper
	namespace string
	of        http.RoundTripper
}

func (b byNamespace) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/namespaces/"+b.namespace+"/") {
		return b.of.RoundTrip(r)
	}
	return b.RoundTripper.RoundTrip(r)
}

// TestReadsOwnWritesOfTwoNamespaces checks that a get sees the second of two forwarded writes in two namespaces with
// one collection each, although only the mirror of the first namespace is up to date.
func TestReadsOwnWritesOfTwoNamespaces(t *testing.T) {
	w, held := newUpstream(t, 1<<20), &sync.RWMutex{}
	b := entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured, Namespace: "b"}
	w.also = []entry.Identity{b}
	w.link = func(next http.RoundTripper) http.RoundTripper {
		return byNamespace{next, b.Namespace, slowWatch{next, held}}
	}
	forward, err := serve.Forward(w.upstream.Config(), noUsers{})
	must(t, err)
	w.start(func(id *entry.Identity, o *serve.Options) { id.Namespace, o.Forward = "a", forward })
	defer func() { w.close() }()
	w.config.BearerToken = "theirs"
	pods := w.client().CoreV1().Pods
	held.Lock()
	for _, namespace := range []string{"a", "b"} {
		_, err := pods(namespace).Create(t.Context(), newPod(namespace, "own"), metav1.CreateOptions{})
		must(t, err)
	}
	later, err := w.admin.CoreV1().Pods("a").Create(t.Context(), newPod("a", "later"), metav1.CreateOptions{})
	must(t, err)
	_, err = pods("a").List(t.Context(), metav1.ListOptions{ResourceVersion: later.ResourceVersion})
	must(t, err)
	for _, namespace := range []string{"a", "b"} {
		_, err := pods(namespace).Get(t.Context(), "own", metav1.GetOptions{})
		if err != nil {
			t.Errorf("namespace %s: %v", namespace, err)
		}
	}
	held.Unlock()
}

// TestOtherReadsDoNotWait checks that reads after a forwarded write are answered from the mirror at once if they do not
// ask for the latest state, are of another user, resource or namespace, or if the API server is unreachable.
func TestOtherReadsDoNotWait(t *testing.T) {
	w, _, held := newForwardingWorld(t)
	w.fill(2)
	list, err := w.admin.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	guarded := httptest.NewServer(access.NewHandler(w.server.Config.Handler,
		access.HandlerOptions{Authenticator: byToken{}}))
	defer guarded.Close()
	clientOf := func(token string) kubernetes.Interface {
		c, err := kubernetes.NewForConfig(&rest.Config{Host: guarded.URL, BearerToken: token, QPS: -1})
		must(t, err)
		return c
	}
	jane, joe := clientOf("jane"), clientOf("joe")
	held.Lock()
	_, err = jane.CoreV1().Pods("a").Create(t.Context(), newPod("a", "new"), metav1.CreateOptions{})
	must(t, err)
	forwarded := len(w.upstream.Requests())
	for name, o := range map[string]metav1.ListOptions{
		"any":        {ResourceVersion: "0"},
		"not older":  {ResourceVersion: list.ResourceVersion},
		"exactly":    {ResourceVersion: list.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
		"namespaced": {},
	} {
		namespace := map[bool]string{true: "b"}[name == "namespaced"]
		got, err := jane.CoreV1().Pods(namespace).List(t.Context(), o)
		if must(t, err); got.ResourceVersion != list.ResourceVersion {
			t.Errorf("%s: the state %s, want %s", name, got.ResourceVersion, list.ResourceVersion)
		}
	}
	if got, err := joe.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil || len(got.Items) != 2 {
		t.Errorf("another user: %v, %v", got, err)
	}
	stream, err := jane.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	first := <-stream.ResultChan()
	stream.Stop()
	if name := first.Object.(metav1.Object).GetName(); name != "p000" {
		t.Errorf("a watch begins with %s", name)
	}
	if n := len(w.upstream.Requests()); n != forwarded {
		t.Errorf("%d requests were forwarded", n-forwarded)
	}
	held.Unlock()
	w.upstream.Stop()
	for range 2 {
		if got, err := jane.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil || len(got.Items) < 2 {
			t.Errorf("while the API server is away: %v, %v", got, err)
		}
	}
}

type byToken struct{}

func (byToken) Authenticate(r *http.Request) (access.User, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return access.User{Username: name}, ok, nil
}

func TestAnswersToWrites(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(2)
	list, err := w.admin.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	object := func(more string) string {
		return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":"p","resourceVersion":%q%s}}`, list.ResourceVersion, more)
	}
	dying := `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
	m := metav1.ObjectMeta{Name: "p", ResourceVersion: list.ResourceVersion}
	raw, err := (&metav1.PartialObjectMetadata{ObjectMeta: m}).Marshal()
	must(t, err)
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}).Marshal()
	must(t, err)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write([]byte(object("")))
	must(t, zip.Close())
	for _, tt := range []struct {
		name, method, path string
		status             int
		answer             string
		forwarded          bool
	}{
		{"an object that the mirror has", "PUT", "/pods/p", 200, object(""), false},
		{"in protobuf", "PUT", "/pods/p", 200, "k8s\x00" + string(envelope), false},
		{"a subresource", "PATCH", "/pods/p/status", 200, object(""), false},
		{"a Status", "DELETE", "/pods/p", 200, `{"kind":"Status","metadata":{},"status":"Success"}`, true},
		{"an eviction", "POST", "/pods/p/eviction", 201, `{"kind":"Status","metadata":{}}`, true},
		{"a binding", "POST", "/bindings", 201, `{"kind":"Status","metadata":{}}`, true},
		{"a deleted object", "DELETE", "/pods/p", 200, object(""), true},
		{"several deletions", "DELETE", "/pods", 200, object(""), true},
		{"an opaque version", "PUT", "/pods/p", 200, `{"metadata":{"resourceVersion":"a7"}}`, true},
		{"nothing", "PUT", "/pods/p", 200, "", true},
		{"a compressed object", "PUT", "/pods/p", 200, packed.String(), true},
		{"a large object", "PUT", "/pods/p", 200, object(`,"annotations":{"a":"` + strings.Repeat("a", 70<<10) + `"}`), true},
		{"the last finalizer", "PATCH", "/pods/p", 200, object(dying), true},
		{"a finalizer", "PATCH", "/pods/p", 200, object(dying + `,"finalizers":["a"]`), false},
		{"a conflict", "PUT", "/pods/p", 409, `{"kind":"Status"}`, true},
		{"gone", "DELETE", "/pods/p", 404, `{"kind":"Status"}`, true},
		{"unknown outcome", "POST", "/pods", 504, `{"kind":"Status"}`, true},
		{"a refusal", "PUT", "/pods/p", 422, `{"kind":"Status"}`, false},
		{"a trial", "DELETE", "/pods/p?dryRun=All", 200, `{"kind":"Status"}`, false},
		{"a proxied request", "POST", "/pods/p/proxy/a/b", 200, "", false},
		{"another resource", "DELETE", "/secrets/p", 200, `{"kind":"Status"}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if w.WriteHeader(tt.status); r.Method == http.MethodGet {
					_, _ = io.WriteString(w, "upstream")
					return
				}
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer api.Close()
			forward, err := serve.Forward(&rest.Config{Host: api.URL}, noUsers{})
			must(t, err)
			h, err := serve.New(serve.Store(w.store), serve.Options{Forward: forward})
			must(t, err)
			defer func() { must(t, h.Close()) }()
			ask := func(method, path string) string {
				r := httptest.NewRequest(method, "/api/v1/namespaces/a"+path, nil)
				r.Header.Set("Authorization", "Bearer theirs")
				answer := httptest.NewRecorder()
				h.ServeHTTP(answer, r)
				return answer.Body.String()
			}
			if got := ask(tt.method, tt.path); got != tt.answer {
				t.Errorf("the client is sent %.100q, want %.100q", got, tt.answer)
			}
			for _, path := range []string{"/pods/p000", "/pods"} {
				if got := ask("GET", path); got == "upstream" != tt.forwarded {
					t.Errorf("GET %s is answered with %.100q", path, got)
				}
			}
		})
	}
}
