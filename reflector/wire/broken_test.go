package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/wire"
)

var errLink = errors.New("the link is gone")

func failing(text string) io.Reader {
	return io.MultiReader(strings.NewReader(text), iotest.ErrReader(errLink))
}

// recorded is the body of an answer. It remembers whether it was read to its end and closed.
type recorded struct {
	io.Reader
	ended, closed bool
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.ended = r.ended || errors.Is(err, io.EOF)
	return n, err
}

func (r *recorded) Close() error { r.closed = true; return nil }

// TestBrokenLists checks that the error of a list whose body fails at any byte wraps the cause, and reads like
// client-go's for an answer that broke off.
func TestBrokenLists(t *testing.T) {
	for name, whole := range bodies(t) {
		for n := range len(whole) + 1 {
			list, err := listBody(t, failing(string(whole[:n])))
			if !errors.Is(err, errLink) || !strings.Contains(err.Error(), "reading response body") {
				t.Errorf("%s: after %d of %d bytes: list %v, error %v", name, n, len(whole), list, err)
			}
		}
	}
}

// steps is the body of an answer that returns one text per read. The last read but one also returns an error.
type steps []string

func (s *steps) Read(p []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*s)[0])
	if *s = (*s)[1:]; len(*s) == 1 {
		return n, errLink
	}
	return n, nil
}

// TestNothingIsReadBehindAnError checks that the body of an answer is not read any further after a read has failed.
func TestNothingIsReadBehindAnError(t *testing.T) {
	body := &steps{`{"kind":"ThingList",`, `"items":[{"metadata":{"name":"a"}},`, `{"metadata":{"name":"b"}}]}`}
	if list, err := listBody(t, body); !errors.Is(err, errLink) {
		t.Errorf("list %v, error %v", list, err)
	}
}

// TestListFailsEarly checks that a list with an item that is not an object fails before all of it has been read,
// whether its kind comes first or last.
func TestListFailsEarly(t *testing.T) {
	for _, kind := range []string{`"kind":"ThingList",`, ""} {
		rest := strings.Repeat(`,{"metadata":{"name":"a"},"x":"`+strings.Repeat("x", 1<<20)+`"}`, 3)
		if list, err := listBody(t, failing(`{`+kind+`"items":[5`+rest)); err == nil || errors.Is(err, errLink) {
			t.Errorf("list %v, error %v", list, err)
		}
	}
}

// TestItemsWithoutAKind checks that a list is refused if neither its items nor its kind show the items' kind.
func TestItemsWithoutAKind(t *testing.T) {
	for _, body := range []string{
		`{"kind":"List","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}`,
		`{"items":[{"metadata":{"name":"a"}}],"kind":"List","apiVersion":"v1"}`,
	} {
		a := &answer{body: []byte(body)}
		list, err := a.listWatch(t, &unstructured.Unstructured{}).ListWithContext(t.Context(), metav1.ListOptions{})
		if err == nil || strings.Contains(err.Error(), "reading response body") {
			t.Errorf("%s: list %+v, error %v", body, list, err)
		}
	}
}

// TestMalformedAndEnded checks that a malformed list whose end arrives together with its last byte does not count as an
// answer that broke off: smaller pages would not help.
func TestMalformedAndEnded(t *testing.T) {
	for _, body := range []string{`{"kind":"PodList","items":[{]]}`, "<html>", "k8s\x00\x0b", `{"kind":"Table"}`} {
		_, err := listBody(t, iotest.DataErrReader(strings.NewReader(body)))
		if err == nil || strings.Contains(err.Error(), "reading response body") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// TestListIsReadToItsEnd checks that a list is read to the end of its body, so that the connection can be used again,
// and that the body is closed, also after an error.
func TestListIsReadToItsEnd(t *testing.T) {
	for _, whole := range bodies(t) {
		text := string(whole)
		if text[0] == '{' {
			text += strings.Repeat(" ", 300<<10) // more than any buffer holds, so that the end is not read by chance
		}
		body := &recorded{Reader: strings.NewReader(text)}
		if _, err := listBody(t, body); err != nil || !body.ended || !body.closed {
			t.Errorf("%.20q: read to its end %t, closed %t, error %v", text, body.ended, body.closed, err)
		}
	}
	body := &recorded{Reader: strings.NewReader("<html>")}
	if _, err := listBody(t, body); err == nil || !body.closed {
		t.Errorf("HTML: closed %t, error %v", body.closed, err)
	}
}

// TestStatusIsItsOwnError checks that a Status in place of a list becomes the error of the list request, even if the
// answer breaks off after the Status.
func TestStatusIsItsOwnError(t *testing.T) {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 410,
		Reason: metav1.StatusReasonExpired, Message: "too old",
		Details: &metav1.StatusDetails{RetryAfterSeconds: 7},
	}
	for name, f := range formats {
		text := string(f.encode(t, status))
		for _, r := range []io.Reader{strings.NewReader(text), iotest.DataErrReader(strings.NewReader(text))} {
			_, err := listBody(t, r)
			var answered apierrors.APIStatus
			if err == nil || err.Error() != "too old" || !errors.As(err, &answered) {
				t.Fatalf("%s: %v", name, err)
			}
			got := answered.Status()
			if got.Code != 410 || got.Reason != metav1.StatusReasonExpired || got.Status != metav1.StatusFailure ||
				got.Details == nil || got.Details.RetryAfterSeconds != 7 {
				t.Errorf("%s: status %+v", name, got)
			}
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	c := (&answer{}).config()
	c.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errLink })
	client, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	lw := wire.New(func(metav1.ListOptions) *rest.Request { return client.Get().MaxRetries(0) },
		codec.NewSent(pods, &corev1.Pod{}, false))
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, errLink) {
		t.Errorf("list: %v", err)
	}
	if w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, errLink) || w != nil {
		t.Errorf("watch: %v, %v", w, err)
	}
}

// TestMemoryOfACutOffValue checks that a truncated message that announces 64 MiB does not cause an allocation of 64
// MiB: the announced lengths are not trusted.
func TestMemoryOfACutOffValue(t *testing.T) {
	size := 64 << 20
	inner := "\x12" + varint(uint64(size))
	body := "k8s\x00" + typeMeta("ThingList") + "\x12" + varint(uint64(size+len(inner))) + inner
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	_, err := listBody(t, strings.NewReader(body))
	if err == nil || !strings.Contains(err.Error(), "reading response body") {
		t.Errorf("a list that is cut off: %v", err)
	}
	goruntime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 20<<20 {
		t.Errorf("%d MiB for an answer of %d bytes", taken>>20, len(body))
	}
}

// TestLargestValue checks that a value of 64 MiB minus a few bytes is read: the bound is not lower than documented.
func TestLargestValue(t *testing.T) {
	blank := func(size int) io.Reader { return io.LimitReader(spaces{}, int64(size)) }
	size := 63 << 20
	list, err := listBody(t, io.MultiReader(strings.NewReader(`{"x":"`), blank(size),
		strings.NewReader(`","kind":"ThingList","items":[{"metadata":{"name":"a"}}]}`)))
	if err != nil || len(list.Items) != 1 {
		t.Errorf("JSON: %v, %v", list, err)
	}
	// The whole list is far larger than the bound, but each value is small.
	parts := []io.Reader{strings.NewReader(`{"kind":"ThingList","x":[`)}
	for n := range 5 {
		if n > 0 {
			parts = append(parts, strings.NewReader(","))
		}
		parts = append(parts, strings.NewReader(`{}`))
	}
	parts = append(parts, strings.NewReader(`],"items":[]`))
	for range 3 {
		parts = append(parts, strings.NewReader(`,"y":"`), blank(30<<20), strings.NewReader(`"`))
	}
	parts = append(parts, strings.NewReader(`}`))
	if _, err := listBody(t, io.MultiReader(parts...)); err != nil {
		t.Errorf("JSON of 90 MiB: %v", err)
	}
}

// TestServerThatOnlySpeaksCBOR checks that a list is repeated in JSON only once after an answer in CBOR. If the server
// still answers in CBOR, each further list is one request.
func TestServerThatOnlySpeaksCBOR(t *testing.T) {
	requests := 0
	c := (&answer{}).config()
	c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		requests++
		body := io.NopCloser(strings.NewReader("\xd9\xd9\xf7\xa0"))
		return &http.Response{StatusCode: http.StatusOK, Request: r, Body: body}, nil
	})
	client, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	lw := wire.New(func(metav1.ListOptions) *rest.Request { return client.Get() },
		codec.NewSent(codec.Unstructured(), &corev1.Pod{}, false))
	for n := range 3 {
		_, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
		if err == nil || !strings.Contains(err.Error(), "CBOR") || requests != n+2 {
			t.Errorf("list %d: %d requests, %v", n, requests, err)
		}
	}
}

// TestWatchInCBOR checks that a watch in CBOR ends with an error, and that the next watch asks for JSON.
func TestWatchInCBOR(t *testing.T) {
	a := &answer{body: []byte("\xd9\xd9\xf7\xa0")}
	lw := a.listWatch(t, &corev1.Pod{})
	for _, want := range []string{runtime.ContentTypeProtobuf + ", */*", runtime.ContentTypeJSON} {
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if events := all(w); len(events) != 1 || !strings.Contains(message(events[0]), "CBOR") {
			t.Errorf("events %+v", events)
		}
		if got := a.seen.Header.Get("Accept"); got != want {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
}

type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// TestEndsOfWatches checks which errors of an open watch only end it, as in client-go, and which are ERROR events.
func TestEndsOfWatches(t *testing.T) {
	for _, tt := range []struct {
		err     error
		message string
	}{
		{io.EOF, ""},
		{fmt.Errorf("read: %w", io.EOF), ""},
		{io.ErrUnexpectedEOF, ""},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), ""},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), ""},
		{errors.New("read tcp: connection reset by peer"), ""},
		{timeout{errors.New("read: i/o timeout")}, ""},
		{errLink, "the link is gone"},
	} {
		for name, f := range formats {
			event := f.frame(f.encode(t, podCalled("a")), watch.Added)
			for _, cut := range []int{0, 1} {
				text := string(event) + string(event[:cut])
				body := &recorded{Reader: io.MultiReader(strings.NewReader(text), iotest.ErrReader(tt.err))}
				a := &answer{stream: body}
				w, err := a.listWatch(t, &corev1.Pod{}).WatchWithContext(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				events := all(w)
				ok := len(events) == 1
				if tt.message != "" {
					ok = len(events) == 2 && strings.Contains(message(events[1]), tt.message)
				}
				if !ok || events[0].Type != watch.Added || !body.closed {
					t.Errorf("%s, %d bytes more, %v: closed %t, events %+v", name, cut, tt.err, body.closed, events)
				}
			}
		}
	}
}

// TestLogOfTheEnd checks that a watch that breaks off within an event logs that, as client-go does.
func TestLogOfTheEnd(t *testing.T) {
	for name, f := range formats {
		event := f.frame(f.encode(t, podCalled("a")), watch.Added)
		for cut, want := range map[int]string{0: "", 1: "Unexpected EOF"} {
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 5})
			a := &answer{body: append(event[:len(event):len(event)], event[:cut]...)}
			w, err := a.listWatch(t, &corev1.Pod{}).WatchWithContext(klog.NewContext(t.Context(), logger),
				metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			events := all(w)
			if text := strings.Join(lines, "\n"); len(events) != 1 || !strings.Contains(text, want) || want == "" && text != "" {
				t.Errorf("%s, %d bytes more: %d events, log %q", name, cut, len(events), text)
			}
		}
	}
}

func podCalled(name string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Annotations: map[string]string{"of": name}}}
}

// TestBordersOfEvents checks that events are read alike however the answer is split, and that their payloads do not
// change while more is read.
func TestBordersOfEvents(t *testing.T) {
	for name, f := range formats {
		var body string
		for _, pod := range []string{"a", "b", "c"} {
			body += string(f.frame(f.encode(t, podCalled(pod)), watch.Added))
			if name == "JSON" { // in JSON the object of an event may also precede its type
				body += `{"object":` + string(f.encode(t, podCalled(pod+pod))) + `,"x":1,"type":"MODIFIED"}`
			}
		}
		whole := watchBody(t, []byte(body))
		bodies := []io.Reader{iotest.OneByteReader(strings.NewReader(body)), iotest.DataErrReader(strings.NewReader(body))}
		for n := range len(body) {
			bodies = append(bodies, io.MultiReader(strings.NewReader(body[:n]), strings.NewReader(body[n:])))
		}
		for n, r := range bodies {
			a := &answer{stream: r}
			w, err := a.listWatch(t, &metav1.PartialObjectMetadata{}).WatchWithContext(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			events := all(w)
			if len(events) != len(whole) || len(whole) < 3 {
				t.Fatalf("%s, border %d: %d events, want %d", name, n, len(events), len(whole))
			}
			for i, ev := range events {
				obj, err := entry.Decoded(ev.Object)
				if err != nil {
					t.Fatalf("%s, border %d: %v", name, n, err)
				}
				m := obj.(*metav1.PartialObjectMetadata)
				if u := ev.Object.(*entry.Undecoded); ev.Type != whole[i].Type || m.Annotations["of"] != m.Name ||
					u.Key != whole[i].Object.(*entry.Undecoded).Key {
					t.Fatalf("%s, border %d: event %d is %s %s %v", name, n, i, ev.Type, u.Key, m)
				}
			}
		}
	}
}

// TestBookmarks checks that the object of a bookmark is decoded, for its annotations. A bookmark that cannot be decoded
// is an ERROR event, although its decoder reports an unexpected end.
func TestBookmarks(t *testing.T) {
	for name, f := range formats {
		a := &answer{body: f.frame(f.encode(t, podCalled("a")), watch.Bookmark)}
		w, err := a.listWatch(t, &corev1.Pod{}).WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		events := all(w)
		if pod, ok := events[0].Object.(*corev1.Pod); !ok || len(events) != 1 || pod.Annotations["of"] != "a" {
			t.Errorf("%s: events %+v", name, events)
		}
	}
	spec := field(2, "\x0a\x05a") // spec is a truncated protobuf message
	for name, body := range map[string]string{
		"JSON": string(formats["JSON"].frame([]byte(pod("a", `"high"`)), watch.Bookmark)),
		"protobuf": string(formats["protobuf"].frame([]byte("k8s\x00"+field(1, field(1, "v1")+field(2, "Pod"))+
			field(2, field(1, field(1, "a"))+spec)), watch.Bookmark)),
	} {
		a := &answer{body: []byte(body)}
		w, err := a.listWatch(t, &corev1.Pod{}).WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if events := all(w); len(events) != 1 || !strings.Contains(message(events[0]), "unable to decode") {
			t.Errorf("%s: events %+v", name, events)
		}
	}
}

// TestStopIsNoError checks that a stopped watch sends no ERROR event, even if the stop makes a read fail.
func TestStopIsNoError(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		a := &answer{stream: endless{make(chan struct{})}}
		w, err := a.listWatch(t, &corev1.Pod{}).WatchWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		if events := all(w); len(events) > 0 {
			t.Fatalf("events %+v", events)
		}
		cancel()
	}
}

func TestStopBeforeTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answer{stream: failing("")}
		w, err := a.listWatch(t, &corev1.Pod{}).WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Stop()
		synctest.Wait()
		if ev, open := <-w.ResultChan(); open {
			t.Errorf("after Stop: %+v", ev)
		}
	})
}

// TestRepairedByAnEvent checks that the next undecodable event of an object ends the watch after a decodable event,
// although a list has reported the object as undecodable.
func TestRepairedByAnEvent(t *testing.T) {
	a := &answer{contentType: runtime.ContentTypeJSON, body: podList(pod("b", `"high"`))}
	lw := a.listWatch(t, &corev1.Pod{})
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	a.body = nil
	for _, priority := range []string{`"high"`, "1", `"high"`} {
		a.body = append(a.body, formats["JSON"].frame([]byte(pod("b", priority)), watch.Modified)...)
	}
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events := all(w)
	if len(events) != 3 || events[1].Type != watch.Modified || !strings.Contains(message(events[2]), "n/b") {
		t.Errorf("events %+v", events)
	}
}
