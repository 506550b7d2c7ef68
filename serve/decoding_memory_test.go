package serve_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// stuck is a client that reads nothing until free is closed. begun is closed at the server's first write.
type stuck struct {
	*httptest.ResponseRecorder
	once        sync.Once
	begun, free chan struct{}
}

func (s *stuck) Write(data []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.free
	return s.ResponseRecorder.Write(data)
}

// hostileWorld is a server of an OpenAPI schema, and of pods with one array element per byte, which decode to much
// memory.
type hostileWorld struct {
	handler *serve.Handler
	memory  *serve.Memory
	schema  int
}

func newHostileWorld(t *testing.T, budget int64) *hostileWorld {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	c, err := st.Collection(t.Context(), entry.Identity{GroupVersionResource: podsResource,
		Representation: entry.Unstructured}, store.CollectionOptions{Codec: codec.Unstructured(), History: 1 << 20,
		Resource: entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true}})
	must(t, err)
	pod := func(namespace, name string, elements int) *unstructured.Unstructured {
		containers := make([]any, elements)
		for i := range containers {
			containers[i] = map[string]any{}
		}
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"spec": map[string]any{"containers": containers}}}
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetUID("u")
		u.SetResourceVersion("7")
		return u
	}
	all := []runtime.Object{pod("a", "one", 1)}
	for i := range 6 {
		all = append(all, pod("b", fmt.Sprintf("p%d", i), 16<<10))
	}
	list, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	must(t, err)
	_, err = list.Page(t.Context(), all)
	must(t, err)
	_, err = list.Commit(t.Context(), entry.Batch{ResourceVersion: "9"})
	must(t, err)
	random := make([]byte, 4<<20)
	_, _ = rand.Read(random)
	z, err := zstd.NewWriter(nil)
	must(t, err)
	w := &hostileWorld{memory: serve.NewMemory(budget), schema: 2 * len(random)}
	must(t, st.PutDocument(t.Context(), "openapi/api/v1", z.EncodeAll([]byte(hex.EncodeToString(random)),
		[]byte("hash\n"))))
	must(t, st.Flush(t.Context()))
	w.handler, err = serve.New(serve.Store(st), serve.Options{Memory: w.memory})
	must(t, err)
	t.Cleanup(func() { must(t, w.handler.Close()) })
	return w
}

// while sends a request, and calls fn while the response waits for its client, which does not read.
func (w *hostileWorld) while(path, accept string, fn func()) *httptest.ResponseRecorder {
	client := &stuck{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), free: make(chan struct{})}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	var ends sync.WaitGroup
	ends.Go(func() { w.handler.ServeHTTP(client, r) })
	<-client.begun
	fn()
	close(client.free)
	ends.Wait()
	return client.ResponseRecorder
}

// TestRenderedMemory checks that a response that is much larger than the stored objects acquires memory of its actual
// size from the budget (issue 37).
func TestRenderedMemory(t *testing.T) {
	w := newHostileWorld(t, 1<<30)
	const protobuf = "application/vnd.kubernetes.protobuf"
	for path, accept := range map[string]string{
		"/api/v1/pods": protobuf, "/api/v1/namespaces/b/pods": protobuf, "/api/v1/namespaces/b/pods/p0": protobuf,
		"/openapi/v3/api/v1": "application/json",
	} {
		var used int64
		r := w.while(path, accept, func() { used = w.memory.Usage().Used })
		if n := r.Body.Len(); r.Code != http.StatusOK || n < 400<<10 || used < int64(n) {
			t.Errorf("GET %s: %d, %d bytes, and %d are taken", path, r.Code, n, used)
		}
	}
	if r := getFrom(w.handler, "/openapi/v3/api/v1", ""); r.Body.Len() != w.schema {
		t.Errorf("the schema has %d bytes", r.Body.Len())
	}
}

// TestDecodingTakesMemory checks that memory is acquired from the budget before a schema, or an object that takes much
// memory to decode, is read (issue 37).
func TestDecodingTakesMemory(t *testing.T) {
	w := newHostileWorld(t, 16<<20)
	slow := func(fn func()) func() {
		return func() { w.while("/api/v1/namespaces/a/pods", "application/json", fn) }
	}
	check := func(want int) func() {
		return func() {
			for _, path := range []string{"/api/v1/namespaces/b/pods/p0", "/api/v1/namespaces/b/pods",
				"/openapi/v3/api/v1"} {
				r := getFrom(w.handler, path, "")
				if r.Code != want || want == http.StatusTooManyRequests && r.Header().Get("Retry-After") != "1" {
					t.Errorf("GET %s: %d %v", path, r.Code, r.Header())
				}
			}
			if r := getFrom(w.handler, "/api/v1/namespaces/a/pods", ""); r.Code != http.StatusOK {
				t.Errorf("a small list: %d", r.Code)
			}
		}
	}
	check(http.StatusOK)()
	five := check(http.StatusTooManyRequests)
	for range 5 { // five requests acquire 10 MiB, and 6 MiB are free
		five = slow(five)
	}
	five()
}
