package controllerruntime

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

type fakeTransport struct {
	query  string
	closed bool
}

func (f *fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	f.query, _ = url.QueryUnescape(r.URL.RawQuery)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func (f *fakeTransport) CloseIdleConnections() { f.closed = true }

// TestHTTPClient checks that clientFor does not change the given client, and passes CloseIdleConnections on.
func TestHTTPClient(t *testing.T) {
	next := &fakeTransport{}
	given := http.Client{Timeout: time.Minute, Transport: next}
	c, err := clientFor(&rest.Config{}, &given)
	must(t, err)
	if c == &given || given.Transport != next || c.Timeout != time.Minute {
		t.Errorf("given %+v, made %+v", given, c)
	}
	wrapper, ok := c.Transport.(utilnet.RoundTripperWrapper)
	if !ok || wrapper.WrappedRoundTripper() != next {
		t.Error("what is wrapped cannot be found")
	}
	if c.CloseIdleConnections(); !next.closed {
		t.Error("idle connections stay")
	}
	if c, err = clientFor(&rest.Config{}, &http.Client{}); err != nil ||
		c.Transport != (transport{http.DefaultTransport}) {
		t.Errorf("%v, %+v", err, c)
	}
	if c, err = clientFor(&rest.Config{Timeout: time.Hour}, nil); err != nil || c.Timeout != time.Hour {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestNarrow(t *testing.T) {
	next := &fakeTransport{}
	c := &http.Client{Transport: transport{next}}
	for _, o := range []struct{ query, selector, want string }{
		{"", "", ""},
		{"fieldSelector=a%3Db", "", "fieldSelector=a=b"},
		{"limit=1", "metadata.name=x", "fieldSelector=metadata.name=x&limit=1"},
		{"fieldSelector=metadata.name%3Dx", "metadata.name=x", "fieldSelector=metadata.name=x"},
		{"fieldSelector=a%21%3Db", "metadata.name=x", "fieldSelector=a!=b,metadata.name=x"},
	} {
		r, err := http.NewRequestWithContext(withSelection(t.Context(), o.selector), http.MethodGet, "http://h/?"+o.query,
			nil)
		must(t, err)
		must(t, do(c, r))
		if next.query != o.want {
			t.Errorf("%+v: %s", o, next.query)
		}
		if r.URL.RawQuery != o.query {
			t.Errorf("%+v: the caller's request became %s", o, r.URL.RawQuery)
		}
	}
	for _, o := range []struct{ query, selector string }{{"fieldSelector=a", "metadata.name=x"},
		{"fieldSelector=a%3Db", "x"}} {
		r, err := http.NewRequestWithContext(withSelection(t.Context(), o.selector), http.MethodGet, "http://h/?"+o.query,
			nil)
		must(t, err)
		if err := do(c, r); err == nil {
			t.Errorf("%+v was sent", o)
		}
	}
}

// TestLimiter checks that a request that is captured instead of sent does not wait for the rate limiter.
func TestLimiter(t *testing.T) {
	l := limiter{exhausted{}}
	if l.Wait(t.Context()) == nil {
		t.Error("the limiter was passed by")
	}
	recorded, _ := withRecording(t.Context())
	must(t, l.Wait(recorded))
}
