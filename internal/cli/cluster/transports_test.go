package cluster

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a fake network transport. Its connection takes a second to establish, and its response bodies do not end.
type wire struct {
	requests atomic.Int64
	hangs    time.Duration // hangs is an extra delay until the first request has a connection
	err      error
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	first := w.requests.Add(1) == 1
	if w.err != nil {
		return nil, w.err
	}
	if first {
		time.Sleep(max(w.hangs, time.Second))
	}
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	return &http.Response{Body: io.NopCloser(strings.NewReader("watched"))}, nil
}

func transportsOf(prepare func(*wire)) (*sharedTransports, *[]*wire) {
	var wires []*wire
	return &sharedTransports{make: func() (http.RoundTripper, error) {
		w := &wire{}
		prepare(w)
		wires = append(wires, w)
		return w, nil
	}}, &wires
}

func watchOver(t *testing.T, l *sharedTransports) (*http.Response, error) {
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return l.RoundTrip(r)
}

// TestSharedTransports checks that requests share transports, and that the first request of a transport is alone until
// it has a network connection. A request counts on its transport until its response body has been read or closed (issue
// 38, A.2).
func TestSharedTransports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, wires := transportsOf(func(*wire) {})
		answers := make(chan *http.Response, 3*maxShared)
		watch := func(n int) {
			for range n {
				go func() {
					resp, err := watchOver(t, l)
					if err != nil {
						t.Error(err)
					}
					answers <- resp
				}()
			}
		}
		counts := func() (all []int64) {
			synctest.Wait()
			for _, w := range *wires {
				all = append(all, w.requests.Load())
			}
			return all
		}
		watch(maxShared + 10)
		if n := counts(); len(n) != 2 || n[0] != 1 || n[1] != 1 {
			t.Errorf("before there is a connection: requests %v, want 1 and 1", n)
		}
		time.Sleep(time.Second)
		if n := counts(); n[0] != maxShared || n[1] != 10 {
			t.Errorf("requests %v, want %d and 10", n, maxShared)
		}
		// Finished requests do not count, so that one transport can serve all of them in turn.
		for n := range maxShared + 10 {
			resp := <-answers
			if n%2 == 0 {
				_, _ = io.ReadAll(resp.Body)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, one := range l.all {
			if one.requests != 0 {
				t.Errorf("%d requests are left in a transport", one.requests)
			}
		}
		watch(5)
		if n := counts(); len(n) != 2 || n[0] != maxShared+5 {
			t.Errorf("requests %v: the first transport is free", n)
		}
		for range 5 {
			_ = (<-answers).Body.Close()
		}
	})
}

// TestFirstDialThatFails checks that waiting requests continue if the first request of a transport cannot connect. The
// failed request must not count any more.
func TestFirstDialThatFails(t *testing.T) {
	errAway := errors.New("connection refused")
	l, wires := transportsOf(func(w *wire) { w.err = errAway })
	for range 3 {
		if _, err := watchOver(t, l); !errors.Is(err, errAway) {
			t.Error(err)
		}
	}
	if len(*wires) != 1 || l.all[0].requests != 0 {
		t.Errorf("%d transports, %d requests left", len(*wires), l.all[0].requests)
	}
}

// TestFirstDialThatHangs checks that the waiting requests of a transport continue after ten seconds if the first
// request hangs while it connects.
func TestFirstDialThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := transportsOf(func(w *wire) { w.hangs = time.Hour })
		first := make(chan struct{})
		go func() {
			defer close(first)
			if resp, err := watchOver(t, l); err != nil || resp.Body.Close() != nil {
				t.Error(resp, err)
			}
		}()
		synctest.Wait()
		begun := time.Now()
		if resp, err := watchOver(t, l); err != nil || resp.Body.Close() != nil {
			t.Error(resp, err)
		}
		if took := time.Since(begun); took != dialWait {
			t.Errorf("the second request waited for %v, want %v", took, dialWait)
		}
		<-first
	})
}
