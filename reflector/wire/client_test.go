package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/reflector/wire"
)

// plugin is the environment variable that makes the test program act as a credential plugin of client-go (TestMain).
const plugin = "LARDER_CREDENTIAL_PLUGIN"

func credential() {
	fmt.Printf(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}`,
		os.Getenv(plugin))
}

type warnings struct{ atomic.Int32 }

func (w *warnings) HandleWarningHeader(int, string, string) { w.Add(1) }

// limiter is a rate limiter for client-go that counts its calls. full, if set, is its error for every request.
type limiter struct {
	calls atomic.Int32
	full  error
}

func (l *limiter) TryAccept() bool { l.calls.Add(1); return true }
func (l *limiter) Accept()         { l.calls.Add(1) }
func (l *limiter) Stop()           {}
func (l *limiter) QPS() float32    { return 1 }

func (l *limiter) Wait(context.Context) error {
	l.calls.Add(1)
	return l.full
}

type counted struct {
	calls atomic.Int32
	next  http.RoundTripper
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.next.RoundTrip(r)
}

// TestTheClientsRequests checks that lists and watches follow the client's configuration: credentials, proxies, content
// types, warnings, throttling.
func TestTheClientsRequests(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.Header().Set("Warning", `299 - "deprecated"`)
		if r.URL.Query().Get("watch") == "" {
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
		}
	}))
	defer server.Close()
	warned, limited, wrapped := &warnings{}, &limiter{}, &counted{}
	for name, tt := range map[string]struct {
		change func(c *rest.Config)
		check  func(r *http.Request, watch bool) bool
	}{
		"impersonation": {
			func(c *rest.Config) { c.Impersonate = rest.ImpersonationConfig{UserName: "jane"} },
			func(r *http.Request, _ bool) bool { return r.Header.Get("Impersonate-User") == "jane" },
		},
		"a path before the API's": {
			func(c *rest.Config) { c.Host += "/k8s/clusters/one" },
			func(r *http.Request, _ bool) bool { return r.URL.Path == "/k8s/clusters/one/api/v1/pods" },
		},
		"a proxy": {
			func(c *rest.Config) {
				c.Host = "http://server.invalid"
				c.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(server.URL) }
			},
			func(r *http.Request, _ bool) bool { return r.Host == "server.invalid" },
		},
		"a token": {
			func(c *rest.Config) { c.BearerToken = "secret" },
			func(r *http.Request, _ bool) bool { return r.Header.Get("Authorization") == "Bearer secret" },
		},
		"a credential plugin": {
			func(c *rest.Config) {
				c.ExecProvider = &clientcmdapi.ExecConfig{
					Command: os.Args[0], APIVersion: "client.authentication.k8s.io/v1",
					InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
					Env:             []clientcmdapi.ExecEnvVar{{Name: plugin, Value: "from-plugin"}},
				}
			},
			func(r *http.Request, _ bool) bool { return r.Header.Get("Authorization") == "Bearer from-plugin" },
		},
		"a user agent": {
			func(c *rest.Config) { c.UserAgent = "agent/1" },
			func(r *http.Request, _ bool) bool { return r.Header.Get("User-Agent") == "agent/1" },
		},
		"a content type": {
			func(c *rest.Config) { c.ContentType = runtime.ContentTypeProtobuf },
			func(r *http.Request, _ bool) bool {
				return r.Header.Get("Accept") == runtime.ContentTypeProtobuf+", */*"
			},
		},
		"what the user accepts": {
			func(c *rest.Config) {
				c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, "application/json"
			},
			func(r *http.Request, _ bool) bool { return r.Header.Get("Accept") == "application/json" },
		},
		"a wrapped transport": {
			func(c *rest.Config) {
				c.Wrap(func(next http.RoundTripper) http.RoundTripper { wrapped.next = next; return wrapped })
			},
			func(*http.Request, bool) bool { return wrapped.calls.Swap(0) == 1 },
		},
		"warnings": {
			func(c *rest.Config) { c.WarningHandler = warned },
			func(*http.Request, bool) bool { return warned.Swap(0) == 1 },
		},
		"throttling": { // lists wait for the rate limiter; watches do not, as in client-go
			func(c *rest.Config) { c.RateLimiter = limited },
			func(_ *http.Request, watch bool) bool {
				return limited.calls.Swap(0) == map[bool]int32{false: 1, true: 0}[watch]
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			lw := podsOf(t, server.URL, tt.change)
			if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil || !tt.check(seen.Load(), false) {
				t.Errorf("list: %v, %+v", err, seen.Load())
			}
			w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
			if err != nil || !tt.check(seen.Load(), true) {
				t.Errorf("watch: %v, %+v", err, seen.Load())
			}
			for range w.ResultChan() {
				t.Error("an event")
			}
		})
	}
}

func podsOf(t *testing.T, host string, change func(*rest.Config)) cache.ListerWatcherWithContext {
	t.Helper()
	config := &rest.Config{Host: host, WarningHandler: rest.NoWarnings{}}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	change(config)
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Client.CloseIdleConnections)
	c, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	return wire.New(func(o metav1.ListOptions) *rest.Request {
		return client.Get().Resource("pods").VersionedParams(&o, metav1.ParameterCodec)
	}, codec.NewSent(c, &corev1.Pod{}, false))
}

// TestContexts checks that a list and a watch end with their context, whether the server answers or hangs, and that a
// list fails if the client's rate limiter refuses it.
func TestContexts(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hang)
	lw := podsOf(t, server.URL, func(*rest.Config) {})
	ctx, cancel := context.WithCancel(t.Context())
	w, err := lw.WatchWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	listed := make(chan error)
	go func() {
		_, err := lw.ListWithContext(ctx, metav1.ListOptions{})
		listed <- err
	}()
	cancel()
	if err := <-listed; !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	for ev := range w.ResultChan() {
		t.Errorf("watch: %v", ev)
	}
	full := errors.New("the limiter is full")
	lw = podsOf(t, server.URL, func(c *rest.Config) { c.RateLimiter = &limiter{full: full} })
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, full) {
		t.Errorf("a list that the rate limiter refuses: %v", err)
	}
}
