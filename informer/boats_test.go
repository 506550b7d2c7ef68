package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// boat is a custom resource. A server may send boats that its Go type cannot decode.
type boat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              boatSpec `json:"spec"`
}

type boatSpec struct {
	Seats int32   `json:"seats"`
	Color panicky `json:"color,omitempty"`
}

func (b *boat) DeepCopyObject() runtime.Object { c := *b; return &c }

// panicky is a string whose UnmarshalJSON panics for some values.
type panicky string

func (p *panicky) UnmarshalJSON(data []byte) error {
	if string(data) == `"panics"` {
		panic("secret")
	}
	return json.Unmarshal(data, (*string)(p))
}

var boatsResource = schema.GroupVersionResource{Group: "sea", Version: "v1", Resource: "boats"}

// boatServer is an API server for boats. It answers in JSON without a network, so it works in a synctest bubble.
type boatServer struct {
	mu      sync.Mutex // mu guards the fields below
	rv      int
	specs   map[string]string
	rvs     map[string]int
	log     []boatEvent
	changed chan struct{}
	// lists counts the lists of boats, without look-ups by name, probes of one object and lists of metadata.
	lists   int
	watches int
}

type boatEvent struct {
	rv   int
	text string
}

func newBoatServer() *boatServer {
	return &boatServer{rv: 100, specs: map[string]string{}, rvs: map[string]int{}, changed: make(chan struct{})}
}

// write creates or updates a boat. spec is JSON; "" deletes the boat.
func (s *boatServer) write(name, spec string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	typ, before := "MODIFIED", s.specs[name]
	switch {
	case spec == "":
		typ, s.rvs[name] = "DELETED", s.rv
		s.specs[name] = before
	case before == "":
		typ = "ADDED"
	}
	if spec != "" {
		s.specs[name], s.rvs[name] = spec, s.rv
	}
	s.log = append(s.log, boatEvent{s.rv, fmt.Sprintf(`{"type":%q,"object":%s}`, typ, s.textLocked(name))})
	if spec == "" {
		delete(s.specs, name)
		delete(s.rvs, name)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *boatServer) textLocked(name string) string {
	return fmt.Sprintf(`{"apiVersion":"sea/v1","kind":"Boat","metadata":{"name":%q,"namespace":"a","uid":"uid-%s",`+
		`"resourceVersion":"%d","labels":{"l":"m"}},"spec":%s}`, name, name, s.rvs[name], s.specs[name])
}

func (s *boatServer) requests() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watches
}

func (s *boatServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body io.ReadCloser
	if r.URL.Query().Get("watch") != "" {
		body = s.watch(r)
	} else {
		body = io.NopCloser(strings.NewReader(s.list(r)))
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body: body, Request: r}, nil
}

func (s *boatServer) list(r *http.Request) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, only, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	only, _, _ = strings.Cut(only, ",")
	if q := r.URL.Query(); only == "" && q.Get("limit") != "1" && q.Get("timeoutSeconds") == "" {
		s.lists++
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(s.specs)) {
		if only == "" || only == name {
			items = append(items, s.textLocked(name))
		}
	}
	return fmt.Sprintf(`{"apiVersion":"sea/v1","items":[%s],"kind":"BoatList","metadata":{"resourceVersion":"%d"}}`,
		strings.Join(items, ","), s.rv)
}

// watch answers a watch request for boats. The watch ends with a bookmark after timeoutSeconds.
func (s *boatServer) watch(r *http.Request) io.ReadCloser {
	at, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	s.mu.Lock()
	s.watches++
	s.mu.Unlock()
	out, in := io.Pipe()
	end := time.After(time.Duration(seconds) * time.Second)
	go func() {
		defer func() { _ = in.Close() }()
		for {
			s.mu.Lock()
			events, changed, rv := slices.Clone(s.log), s.changed, s.rv
			s.mu.Unlock()
			for _, ev := range events {
				if ev.rv <= at {
					continue
				}
				at = ev.rv
				if _, err := io.WriteString(in, ev.text+"\n"); err != nil {
					return
				}
			}
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			case <-end:
				_, _ = fmt.Fprintf(in, `{"type":"BOOKMARK","object":{"apiVersion":"sea/v1","kind":"Boat","metadata":{`+
					`"resourceVersion":"%d"},"spec":{}}}`+"\n", rv)
				return
			}
		}
	}()
	return out
}

// harbor is a program with an informer of boats, which reads the server's answers itself.
type harbor struct {
	t    *testing.T
	srv  *boatServer
	path string
	o    informer.Options

	st   *store.Store
	i    *informer.Informer
	stop func()

	mu  sync.Mutex
	log []string
}

func newHarbor(t *testing.T) *harbor {
	return &harbor{t: t, srv: newBoatServer(), path: filepath.Join(t.TempDir(), "larder.db"), o: informer.Options{
		Identity: entry.Identity{GroupVersionResource: boatsResource}, Residency: store.None,
	}}
}

// start starts the program, and returns a minute later.
func (h *harbor) start(handlers ...cache.ResourceEventHandler) {
	h.t.Helper()
	logger := funcr.New(func(prefix, args string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.log = append(h.log, prefix+args)
	}, funcr.Options{})
	handlersBefore := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
		func(_ context.Context, err error, msg string, keysAndValues ...any) {
			logger.Error(err, msg, keysAndValues...)
		},
	}
	h.t.Cleanup(func() { utilruntime.ErrorHandlers = handlersBefore })
	config := &rest.Config{Host: "http://server", Transport: h.srv}
	config.APIPath, config.GroupVersion = "/apis", &schema.GroupVersion{Group: "sea", Version: "v1"}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client := value(rest.RESTClientFor(config))(h.t)
	h.st = value(store.Open(h.path, store.Options{Logger: &logger}))(h.t)
	o := h.o
	o.Store, o.Logger = h.st, &logger
	h.i = value(informer.New(requests.ListWatch(client, o.Identity), &boat{}, o))(h.t)
	for _, handler := range handlers {
		value(h.i.AddEventHandler(handler))(h.t)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.i.RunWithContext(ctx)
	}()
	h.stop = func() { cancel(); <-done }
	h.waitIdle(time.Minute)
}

func (h *harbor) waitIdle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *harbor) end() {
	h.t.Helper()
	h.stop()
	report, err := h.st.Check(h.t.Context())
	if err != nil || len(report.Problems) > 0 {
		h.t.Errorf("Check: %v, %q", err, report.Problems)
	}
	if err := h.st.Close(); err != nil {
		h.t.Error(err)
	}
}

// reads lists all boats from the informer's store n times, and checks their names.
func (h *harbor) reads(n int, want ...string) {
	h.t.Helper()
	for range n {
		var got []string
		for _, obj := range h.i.GetIndexer().List() {
			got = append(got, obj.(*boat).Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			h.t.Errorf("read %q, want %q", got, want)
		}
		h.waitIdle(time.Second)
	}
}

// leftOut checks the keys of the boats that are not stored because the codec cannot decode them.
func (h *harbor) leftOut(want ...string) {
	h.t.Helper()
	var got []string
	for _, l := range h.i.Status().LeftOut {
		if l.Reason == entry.LeftOutCodec {
			got = append(got, l.Key)
		}
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("left out %q, want %q", got, want)
	}
}

// logged checks that one log line has all of the given parts, and that no log line quotes an object.
func (h *harbor) logged(parts ...string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	has := func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	}
	if !slices.ContainsFunc(h.log, has) {
		h.t.Errorf("no line of the log has %q: %q", parts, h.log)
	}
	if text := strings.Join(h.log, "\n"); strings.Contains(text, "secret") {
		h.t.Errorf("the log quotes an object: %s", text)
	}
}
