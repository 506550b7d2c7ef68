package fakeapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestStatusFault(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 5)
	ctx := testContext(t)
	pods := typed(t, s, contentJSON).CoreV1().Pods("")
	clear := s.InjectFault(Fault{Verb: "list", Resource: "pods", Times: 1, After: 1, Status: 403, Reason: "Forbidden"})
	defer clear()
	if _, err := pods.List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the first list: %v", err)
	}
	if _, err := pods.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		t.Errorf("a probe is no list: %v", err)
	}
	if _, err := pods.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the second list: %v", err)
	}
	if _, err := pods.List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the third list: %v", err)
	}
	for range 2 {
		clear := s.InjectFault(Fault{Verb: "watch", Status: 429, Reason: "TooManyRequests", RetryAfter: 7})
		response, body := get(t, s, "/api/v1/pods?watch=1", nil)
		if response.StatusCode != 429 || response.Header.Get("Retry-After") != "7" ||
			!strings.Contains(string(body), `"retryAfterSeconds":7`) {
			t.Errorf("%d %v %s", response.StatusCode, response.Header, body)
		}
		clear()
	}
	s.InjectFault(Fault{Verb: "watch", Times: 1, Status: 410, Reason: "Expired", InStream: true, AfterEvents: 1})
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002"})
	must(t, err)
	defer w.Stop()
	expect(t, w, "ADDED default/pod-00001 1003", "ERROR injected fault: Gone")
	want := "list /api/v1/pods"
	if got := s.Requests()[0]; got != want {
		t.Errorf("the first request was %q, not %q", got, want)
	}
}

func stream(t *testing.T, s *Server, query string) (events int, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Config().Host+"/api/v1/pods?watch=1"+query, nil)
	must(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return strings.Count(string(body), `"type":`), err
}

func TestStreamFaults(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 5)
	for _, c := range []struct {
		name   string
		f      Fault
		events int
		err    error
	}{
		{name: "reset at once", f: Fault{Break: BreakReset}, err: syscall.ECONNRESET},
		{name: "end at once", f: Fault{Break: BreakEOF}},
		{name: "reset", f: Fault{Break: BreakReset, AfterEvents: 2}, events: 2, err: syscall.ECONNRESET},
		{name: "end", f: Fault{Break: BreakEOF, AfterEvents: 3}, events: 3},
		{name: "swallow", f: Fault{SwallowEvents: true, AfterEvents: 1}, events: 1},
		{name: "shuffle is for lists", f: Fault{Unsorted: true}, events: 4},
	} {
		c.f.Verb, c.f.Times = "watch", 1
		s.InjectFault(c.f)
		events, err := stream(t, s, "&resourceVersion=1002&timeoutSeconds=1")
		// After a reset the kernel may discard received data, so the client may have fewer events.
		if events != c.events && c.f.Break != BreakReset || !errors.Is(err, c.err) {
			t.Errorf("%s: %d events, then %v", c.name, events, err)
		}
	}
}

// TestCutBody checks that a fault with AfterBytes cuts the answer to a large list, but no shorter answer.
func TestCutBody(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 2000)
	ctx := testContext(t)
	for name, want := range map[string]struct {
		f   Fault
		err error
	}{
		"reset": {Fault{Break: BreakReset}, syscall.ECONNRESET},
		"end":   {Fault{Break: BreakEOF}, io.ErrUnexpectedEOF},
		"hang":  {Fault{Break: BreakHang}, context.DeadlineExceeded},
	} {
		want.f.Verb, want.f.AfterBytes = "list", 10_000
		clear := s.InjectFault(want.f)
		for _, content := range []string{contentJSON, contentProtobuf} {
			pods := typed(t, s, content).CoreV1().Pods("")
			if l, err := pods.List(ctx, metav1.ListOptions{Limit: 5}); err != nil || len(l.Items) != 5 {
				t.Errorf("%s: a short list: %v", name, err)
			}
			limited, cancel := ctx, context.CancelFunc(func() {})
			if want.f.Break == BreakHang {
				limited, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
			}
			_, err := pods.List(limited, metav1.ListOptions{})
			cancel()
			if !errors.Is(err, want.err) {
				t.Errorf("%s, %s: a list of everything: %v", name, content, err)
			}
		}
		clear()
	}
}

func TestHang(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 1)
	ctx := testContext(t)
	pods := typed(t, s, contentJSON).CoreV1().Pods("")
	s.InjectFault(Fault{Verb: "list", Times: 1, Break: BreakHang})
	hung, cancel := context.WithCancel(ctx)
	result := make(chan error)
	go func() {
		_, err := pods.List(hung, metav1.ListOptions{})
		result <- err
	}()
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002"})
	must(t, err)
	defer w.Stop()
	waitWatches(t, s, 1)
	s.BreakWatches(podsGVR, BreakHang)
	control, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002"})
	must(t, err)
	defer control.Stop()
	must(t, s.Load(podsGVR, pod("default", "x", nil)))
	expect(t, control, "ADDED default/x 1003")
	select {
	case e := <-w.ResultChan():
		t.Errorf("a hanging watch sent %s", describeEvent(e))
	case err := <-result:
		t.Errorf("a hanging list ended: %v", err)
	default:
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the hanging list ended with %v", err)
	}
	// Stop must end the answers that hang because of a fault.
	s.Stop()
	if e, ok := <-w.ResultChan(); ok && e.Type != watch.Error {
		t.Errorf("%s instead of the end", describeEvent(e))
	}
}

func TestUnsortedList(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 200)
	s.InjectFault(Fault{Verb: "list", Times: 1, Unsorted: true})
	pods := typed(t, s, contentProtobuf).CoreV1().Pods("")
	shuffled, err := pods.List(testContext(t), metav1.ListOptions{})
	must(t, err)
	sorted, err := pods.List(testContext(t), metav1.ListOptions{})
	must(t, err)
	seen, moved := map[string]bool{}, 0
	for i, p := range shuffled.Items {
		seen[p.Name] = true
		if p.Name != sorted.Items[i].Name {
			moved++
		}
	}
	if len(seen) != 200 || moved < 100 {
		t.Errorf("%d pods, %d of them out of place", len(seen), moved)
	}
}
