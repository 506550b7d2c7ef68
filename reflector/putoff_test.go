package reflector_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/reflector"
)

// pipes is a net.Listener with connections in memory, so that an HTTP server can run in a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// served is a ListerWatcher that makes a request with client-go's REST client before each page.
type served struct {
	*server
	client rest.Interface
	// raw is true if DoRaw reads the body. DoRaw's error for a broken body has no text of its own.
	raw bool

	mu     sync.Mutex
	limits []int64
}

func (s *served) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Limit > 1 {
		s.mu.Lock()
		s.limits = append(s.limits, o.Limit)
		s.mu.Unlock()
		var err error
		if get := s.client.Get().AbsPath("/page"); s.raw {
			_, err = get.DoRaw(ctx)
		} else {
			_, err = get.Do(ctx).Raw()
		}
		if err != nil {
			s.log(request{ListOptions: o}) // this request did not reach the scripted server, so it is counted here
			return nil, err
		}
	}
	return s.server.ListWithContext(ctx, o)
}

func restClient(t *testing.T, qps float32, serve http.HandlerFunc) (client rest.Interface, end func()) {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	api := &http.Server{Handler: serve}
	ended := make(chan error)
	go func() { ended <- api.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial}
	config := &rest.Config{Host: "http://server", QPS: qps, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}}
	client, err := rest.RESTClientForConfigAndClient(config, &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return client, func() {
		transport.CloseIdleConnections()
		_ = api.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

// TestPutOff checks that a 429 with Retry-After does not shrink the next page: client-go's REST client waits for it
// until the request's time-out. An answer that breaks off or does not arrive may be too large, and does shrink the
// page.
func TestPutOff(t *testing.T) {
	putOff := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	drip := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		qps    float32
		raw    bool
		want   []int64
		putOff bool
	}{
		"put off":                     {putOff, -1, false, []int64{500, 500, 500, 500}, true},
		"put off, with a limiter":     {putOff, 5, false, []int64{500, 500, 500, 500}, true},
		"put off, raw":                {putOff, 5, true, []int64{500, 500, 500, 500}, true},
		"a body breaks off":           {drip, -1, false, []int64{500, 250, 62, 7}, false},
		"a body that is read by hand": {drip, 5, true, []int64{500, 250, 62, 7}, false},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 5, false,
			[]int64{500, 250, 62, 7}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(20)
				busy := time.Now().Add(5 * time.Minute)
				client, end := restClient(t, test.qps, func(w http.ResponseWriter, r *http.Request) {
					if time.Now().Before(busy) {
						test.answer(w, r)
					}
				})
				lw := &served{server: g.s, client: client, raw: test.raw}
				g.startOn(lw, reflector.Options{})
				g.sleep(15 * time.Minute)
				g.converged()
				if got := lw.limits[:min(4, len(lw.limits))]; !slices.Equal(got, test.want) {
					t.Errorf("pages of %d were asked for, want %d; errors %q", lw.limits, test.want, g.errs)
				}
				for _, err := range g.errs {
					if errors.Is(err, reflector.ErrPutOff) != test.putOff {
						t.Errorf("error %v", err)
					}
				}
				if len(g.errs) == 0 {
					t.Error("no errors")
				}
				g.stop()
				end()
			})
		})
	}
}
