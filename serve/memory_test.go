package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
)

// pipes is a net.Listener whose connections have no buffer, so that the first write waits for the client's read.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

type byName struct{}

func (byName) Authenticate(r *http.Request) (access.User, bool, error) {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return access.User{Username: name}, name != "", nil
}

// slowWorld is a server with a memory budget, and with more objects than one list may hold in memory.
type slowWorld struct {
	*world
	memory *serve.Memory
	pipes  *pipes
}

func newSlowWorld(t *testing.T, budget int64) *slowWorld {
	t.Helper()
	w := &slowWorld{memory: serve.NewMemory(budget), pipes: &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}}
	w.world = newWorldWith(t, 16<<20, func(_ *entry.Identity, o *serve.Options) { o.Memory = w.memory })
	for i := range 40 {
		w.create(largePod(fmt.Sprintf("p%03d", i), 50_000))
	}
	w.caughtUp()
	log := logr.Discard()
	s := &http.Server{Handler: access.NewHandler(w.server.Config.Handler, access.HandlerOptions{
		Authenticator: byName{}, Logger: &log})}
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(w.pipes) })
	t.Cleanup(func() {
		must(t, s.Close())
		running.Wait()
	})
	return w
}

// largePod returns a pod with an annotation of the given size. The estimate of the memory for decoding must not mistake
// the annotation's text for a protobuf message.
func largePod(name string, size int) *corev1.Pod {
	p := newPod("a", name)
	p.Annotations = map[string]string{"fat": strings.Repeat("~", size)}
	return p
}

func (w *slowWorld) send(user, path, accept string) net.Conn {
	w.t.Helper()
	client, server := net.Pipe()
	w.pipes.accept <- server
	_, err := fmt.Fprintf(client, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n\r\n",
		path, user, accept)
	must(w.t, err)
	return client
}

func (w *slowWorld) read(conn net.Conn) (*http.Response, string) {
	w.t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(w.t, err)
	body, err := io.ReadAll(r.Body)
	must(w.t, err)
	return r, string(body)
}

// TestSlowReaders checks that clients that do not read hold no more memory than the budget, and that one user holds at
// most half of it (issue 37).
func TestSlowReaders(t *testing.T) {
	const list, half = 2 << 20, 4 << 20
	w := newSlowWorld(t, 2*half)
	for name, path := range map[string]string{
		"list":  "/api/v1/pods",
		"pages": "/api/v1/pods?limit=30",
		"watch": "/api/v1/pods?watch=1&resourceVersion=0",
	} {
		t.Run(name, func(t *testing.T) {
			before := w.memory.Usage()
			var all []net.Conn
			for range 6 {
				all = append(all, w.send("mallory", path, "application/json"))
			}
			eventually(t, func() bool {
				u := w.memory.Usage()
				return u.Used == half && u.Refused-before.Refused == int64(6-half/list)
			}, func() string { return fmt.Sprintf("the budget is %+v", w.memory.Usage()) })
			for _, own := range []string{path, "/api/v1/pods", "/api/v1/namespaces/a/pods/p000", "/api/v1"} {
				if own == "/api/v1/pods?watch=1&resourceVersion=0" {
					own += "&timeoutSeconds=1"
				}
				r, body := w.read(w.send("owner", own, "application/json"))
				if r.StatusCode != http.StatusOK || strings.HasSuffix(own, "/pods") && strings.Count(body, `"fat":`) != 40 {
					t.Errorf("the owner's GET %s: %s", own, r.Status)
				}
			}
			refused := 0
			for _, c := range all {
				if r, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && r.StatusCode == http.StatusTooManyRequests {
					if refused++; r.Header.Get("Retry-After") != "1" {
						t.Errorf("a refusal has the header %v", r.Header)
					}
				}
				c.Close()
			}
			if refused != 6-half/list {
				t.Errorf("%d of 6 were refused", refused)
			}
			eventually(t, func() bool { return w.memory.Usage().Used == 0 },
				func() string { return fmt.Sprintf("the budget is %+v", w.memory.Usage()) })
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // two collections empty a sync.Pool
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSlowReadersMemory checks that a list uses no more memory than it has acquired from the budget, in any format,
// while its client does not read.
func TestSlowReadersMemory(t *testing.T) {
	w := newSlowWorld(t, 1<<30)
	for i := range 60 { // 60 pods are more objects than a list may hold in memory
		w.create(largePod(fmt.Sprintf("q%03d", i), 100_000))
	}
	w.caughtUp()
	for _, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
		"application/json;as=Table;g=meta.k8s.io;v=v1", "application/json\r\nAccept-Encoding: gzip"} {
		for _, path := range []string{"/api/v1/pods?", "/api/v1/pods?limit=39&", "/api/v1/namespaces/a/pods/p000?"} {
			const readers = 8
			before := heap()
			var all []net.Conn
			for range readers {
				all = append(all, w.send("mallory", path+"includeObject=Object", accept))
			}
			var first sync.WaitGroup
			for _, c := range all {
				first.Go(func() { _, _ = c.Read(make([]byte, 1)) })
			}
			first.Wait()
			used := w.memory.Usage().Used
			if held := heap() - before; used == 0 || held > used {
				t.Errorf("%s of %s: %d readers hold %d bytes, and have taken %d", accept, path, readers, held, used)
			}
			for _, c := range all {
				c.Close()
			}
			eventually(t, func() bool { return w.memory.Usage().Used == 0 }, func() string { return "memory is not given back" })
		}
	}
}

// TestSlowWatchesMemory checks that watches whose clients do not read need little memory, apart from the budget's and
// that of the shared encoded events. When a user's watches exceed half of the budget they end with an ERROR event of
// 429, and another user's watch continues (issue 37).
func TestSlowWatchesMemory(t *testing.T) {
	const watches, half, large = 60, 4 << 20, 1_000_000
	const each = 48 << 10
	w := newSlowWorld(t, 2*half)
	version := func() string {
		list, err := w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1})
		must(t, err)
		return list.ResourceVersion
	}
	small := version()
	for i := range 100 {
		w.create(largePod(fmt.Sprintf("s%03d", i), 1_000))
	}
	w.caughtUp()
	beforeLarge := version()
	w.create(largePod("t1", large), largePod("t2", large), largePod("t3", large), largePod("t4", large))
	w.caughtUp()
	open := func(rv string) (all []net.Conn, bodies []io.Reader) {
		var begun sync.WaitGroup
		bodies = make([]io.Reader, watches)
		for i := range bodies {
			c := w.send("mallory", "/api/v1/pods?watch=1&resourceVersion="+rv, "application/json")
			all = append(all, c)
			begun.Go(func() {
				if r, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil); err == nil {
					bodies[i] = r.Body
					_, _ = r.Body.Read(make([]byte, 1))
				}
			})
		}
		begun.Wait()
		return all, bodies
	}
	end := func(all []net.Conn) {
		for _, c := range all {
			must(t, c.Close())
		}
		eventually(t, func() bool { return w.memory.Usage().Used == 0 },
			func() string { return fmt.Sprintf("the budget is %+v", w.memory.Usage()) })
	}
	t.Run("small", func(t *testing.T) {
		before := heap()
		all, _ := open(small)
		if held, used := heap()-before, w.memory.Usage().Used; used != 0 || held > watches*each {
			t.Errorf("%d watches of small objects hold %d bytes, and have taken %d", watches, held, used)
		}
		end(all)
	})
	t.Run("large", func(t *testing.T) {
		before, shared := heap(), int64(4<<20)
		all, bodies := open(beforeLarge)
		holding := half / large
		eventually(t, func() bool { return w.memory.Usage().Refused >= int64(watches-holding) },
			func() string { return fmt.Sprintf("the budget is %+v", w.memory.Usage()) })
		held, used := heap()-before, w.memory.Usage().Used
		if used < large || used > half || held > used+shared+watches*each {
			t.Errorf("%d watches of large objects hold %d bytes, and have taken %d", watches, held, used)
		}
		r, body := w.read(w.send("owner", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion="+beforeLarge,
			"application/json"))
		if n := strings.Count(body, `{"type":"ADDED"`); r.StatusCode != http.StatusOK || n != 4 {
			t.Errorf("the owner's watch: %s, %d of 4 pods", r.Status, n)
		}
		refused := 0
		for _, body := range bodies {
			text := make([]byte, 15)
			if _, err := io.ReadFull(body, text); err == nil && string(text) == `"type":"ERROR",` {
				refused++
			}
		}
		if refused < watches-holding {
			t.Errorf("%d of %d watches were refused", refused, watches)
		}
		end(all)
	})
}

func TestLargeObjects(t *testing.T) {
	w := newSlowWorld(t, 4<<20)
	w.create(largePod("q1", 1_000_000), largePod("q2", 1_000_000))
	w.caughtUp()
	for _, path := range []string{"/api/v1/pods", "/api/v1/pods?limit=100", "/api/v1/namespaces/a/pods/q1"} {
		for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			r, body := w.read(w.send("owner", path, accept))
			if r.StatusCode != http.StatusOK || len(body) < 1_000_000 {
				t.Errorf("GET %s as %s: %s, %d bytes", path, accept, r.Status, len(body))
			}
		}
	}
	if u := w.memory.Usage(); u.Used != 0 || u.Refused != 0 {
		t.Errorf("the budget is %+v", u)
	}
}

// TestListExceedsBudget checks that a list that has begun is not cut off if a page exceeds its user's budget. One list
// of the user exceeds the budget by that page; the next list waits (issue 37).
func TestListExceedsBudget(t *testing.T) {
	const path, half = "/api/v1/pods", 13 << 19
	w := newSlowWorld(t, 2*half)
	w.create(largePod("q", 1_000_000))
	w.caughtUp()
	whole := func(conn net.Conn, begun string) {
		t.Helper()
		r, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(begun), conn)), nil)
		must(t, err)
		body, err := io.ReadAll(r.Body)
		if n := strings.Count(string(body), `"fat":`); r.StatusCode != http.StatusOK || err != nil || n != 41 {
			t.Errorf("the list has the status %s and %d of 41 pods: %v", r.Status, n, err)
		}
	}
	slow := w.send("mallory", path, "application/json")
	defer slow.Close()
	eventually(t, func() bool { return w.memory.Usage().Used > 0 }, func() string { return "nothing is held" })
	whole(w.send("mallory", path, "application/json"), "")

	large := w.send("mallory", path, "application/json")
	defer large.Close()
	must(t, large.SetDeadline(time.Now().Add(20*time.Second))) // fail instead of waiting for ever for the response
	for w.memory.Usage().Used <= 9<<19 {                       // the list holds its last page when usage exceeds 4.5 MiB: two lists hold 4 MiB
		_, err := io.ReadFull(large, make([]byte, 4<<10))
		must(t, err)
	}
	var begun strings.Builder
	next := w.send("mallory", path, "application/json")
	must(t, next.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := io.CopyN(&begun, next, 1_900_000)
	must(t, err)
	must(t, large.Close())
	whole(next, begun.String())
	must(t, slow.Close())
	eventually(t, func() bool { return w.memory.Usage().Used == 0 },
		func() string { return fmt.Sprintf("the budget is %+v", w.memory.Usage()) })
}

// TestListOfManyPages checks that lists of several pages have every object once, also with a cached length.
func TestListOfManyPages(t *testing.T) {
	w := newSlowWorld(t, 0)
	for _, limit := range []int64{0, 1, 7, 39, 40, 41} {
		for range 2 {
			var names []string
			o := metav1.ListOptions{Limit: limit}
			for {
				pods, err := w.client().CoreV1().Pods("").List(context.Background(), o)
				must(t, err)
				for _, p := range pods.Items {
					names = append(names, p.Name)
				}
				if pods.Continue != "" && *pods.RemainingItemCount != int64(40-len(names)) {
					t.Fatalf("%d remain after %d", *pods.RemainingItemCount, len(names))
				}
				if o.Continue = pods.Continue; o.Continue == "" {
					break
				}
			}
			for i := range 40 {
				if len(names) != 40 || names[i] != fmt.Sprintf("p%03d", i) {
					t.Fatalf("limit %d: the list has %v", limit, names)
				}
			}
		}
	}
}
