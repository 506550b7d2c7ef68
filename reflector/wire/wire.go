package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// maxObject is the maximum size of an object, a frame or a value, in bytes. API servers refuse objects of more than a
// few MiB; aggregated API servers may accept larger ones.
const maxObject = 64 << 20

const bufferSize = 64 << 10

var (
	errTooLarge = fmt.Errorf("the server sent an object of more than %d MiB", maxObject>>20)
	errFormat   = errors.New("the server answered in neither protobuf nor JSON")
	errCBOR     = fmt.Errorf("%w, but in CBOR although it was asked for JSON", errFormat)
	errEmpty    = errors.New("the server sent an empty answer")
	errNoList   = errors.New("the server sent something else than a list")
)

// Requests makes the request for a list or, if o.Watch is set, for a watch.
type Requests func(o metav1.ListOptions) *rest.Request

// New returns a ListerWatcher. requests makes its HTTP requests, and sent makes undecoded objects of the answers.
func New(requests Requests, sent *codec.Sent) cache.ListerWatcherWithContext {
	return &listWatch{requests: requests, sent: sent}
}

type listWatch struct {
	requests Requests
	sent     *codec.Sent
	known    undecodable
	// asksForJSON is true once the server has answered in CBOR, which it does if client-go's feature ClientsAllowCBOR
	// is on. From then on requests ask for JSON.
	asksForJSON atomic.Bool
}

func (w *listWatch) request(o metav1.ListOptions) *rest.Request {
	r := w.requests(o)
	if w.asksForJSON.Load() {
		r.SetHeader("Accept", runtime.ContentTypeJSON)
	}
	return r
}

// notes makes further requests ask for JSON if err says that an answer is in CBOR. again is true for the first CBOR
// answer: the caller should repeat the request.
func (w *listWatch) notes(err error) (again bool, noted error) {
	if !errors.Is(err, errCBOR) {
		return false, err
	}
	return w.asksForJSON.CompareAndSwap(false, true), err
}

// List is a page of a list. Its items are of the type *entry.Undecoded.
type List struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object. The copy shares the items, which are immutable.
func (l *List) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = append([]runtime.Object(nil), l.Items...)
	return &c
}

func (w *listWatch) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	l, err := w.listOnce(ctx, o)
	if again, _ := w.notes(err); again {
		l, err = w.listOnce(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	w.known.listed(l)
	return l, nil
}

func (w *listWatch) listOnce(ctx context.Context, o metav1.ListOptions) (*List, error) {
	sent := w.request(o)
	answer, err := sent.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }()
	body := &body{Reader: answer}
	r := bufio.NewReaderSize(body, bufferSize)
	l, err := w.list(r)
	if err == nil {
		// The rest of the body is read, so that the connection can be used again.
		_, err = io.Copy(io.Discard, r)
	}
	if errors.Is(err, errNoList) {
		return nil, fmt.Errorf("GET %s: %w", sent.URL().Path, err)
	}
	if err != nil {
		return nil, body.explain(err)
	}
	return l, nil
}

type body struct {
	io.Reader
	// broken is true if a read has failed before the end of the body.
	broken bool
}

func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.Reader.Read(p)
	b.broken = b.broken || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// explain returns the error of reading a list. The error of an answer that broke off is worded like client-go's:
// client-go's reflector and Larder's recognize these words, and request smaller pages. No other error has these words,
// because a smaller page would not be easier to read.
func (b *body) explain(err error) error {
	var answered apierrors.APIStatus
	switch {
	case errors.As(err, &answered):
		return err
	case b.broken, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errEmpty):
		return fmt.Errorf("reading response body: %w", err)
	}
	return fmt.Errorf("reading the list: %w", err)
}

func (w *listWatch) list(r *bufio.Reader) (*List, error) {
	json, err := isJSON(r)
	if err != nil {
		return nil, err
	}
	if json {
		return listJSON(newValues(r), w.sent)
	}
	return listProtobuf(r, w.sent)
}

func isJSON(r *bufio.Reader) (bool, error) {
	first, err := r.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return false, errEmpty
	case err != nil:
		return false, err
	}
	switch first[0] {
	case '{', ' ', '\t', '\r', '\n':
		return true, nil
	case magic[0], 0: // 0 is the first byte of the length of a protobuf frame
		return false, nil
	}
	if first[0] >= 0x80 { // an array, a map or a tag in CBOR begins with a byte above 0x7f; no JSON does
		return false, errCBOR
	}
	return false, errFormat
}

// WatchWithContext does not wait for the client's rate limiter, as in client-go.
func (w *listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	body, err := w.request(o).Throttle(flowcontrol.NewFakeAlwaysRateLimiter()).Stream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return newWatcher(ctx, cancel, body, w), nil
}

type watcher struct {
	ctx    context.Context
	stop   func()
	events chan watch.Event
	of     *listWatch
}

func newWatcher(ctx context.Context, cancel context.CancelFunc, body io.ReadCloser, of *listWatch) *watcher {
	w := &watcher{ctx: ctx, of: of, events: make(chan watch.Event), stop: sync.OnceFunc(func() {
		cancel()
		_ = body.Close()
	})}
	go w.read(bufio.NewReaderSize(body, bufferSize))
	return w
}

func (w *watcher) Stop() { w.stop() }

func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

func (w *watcher) read(r *bufio.Reader) {
	defer close(w.events)
	defer w.Stop()
	next, err := reader(r, w.of.sent)
	_, err = w.of.notes(err)
	for err == nil {
		var ev watch.Event
		if ev, err = next(); err != nil {
			break
		}
		if err = w.refuses(ev); err != nil {
			break
		}
		select {
		case w.events <- ev:
		case <-w.ctx.Done():
			return
		}
	}
	w.end(err)
}

// refuses returns an error if the object of an event cannot be decoded and no list has reported that before. The error
// ends the watch. A DELETED event never ends the watch: the deletion matters more than the deleted object's state.
func (w *watcher) refuses(ev watch.Event) error {
	u, ok := ev.Object.(*entry.Undecoded)
	if !ok || w.of.known.knows(u) || ev.Type == watch.Deleted {
		return nil
	}
	return fmt.Errorf("object %q: %w", u.Key, u.Err())
}

// reader returns the function that reads the next event of an answer. At the end of the watch it returns io.EOF.
func reader(r *bufio.Reader, sent *codec.Sent) (func() (watch.Event, error), error) {
	json, err := isJSON(r)
	switch {
	case errors.Is(err, errEmpty): // the answer ended before its first event, so the watch has no events
		return nil, io.EOF
	case err != nil:
		return nil, err
	case json:
		v := newValues(r)
		return func() (watch.Event, error) { return eventJSON(v, sent) }, nil
	}
	scratch := new([]byte)
	return func() (watch.Event, error) { return eventProtobuf(r, scratch, sent) }, nil
}

// end handles the end of the answer as client-go's watch.StreamWatcher does. A lost connection only ends the watch; an
// answer that cannot be read causes an ERROR event.
func (w *watcher) end(err error) {
	logger := klog.FromContext(w.ctx)
	switch {
	case w.ctx.Err() != nil, errors.Is(err, io.EOF):
		return
	case errors.Is(err, io.ErrUnexpectedEOF):
		logger.V(1).Info("Unexpected EOF during watch stream event decoding", "err", err)
		return
	case utilnet.IsProbableEOF(err), utilnet.IsTimeout(err):
		logger.V(5).Info("Unable to decode an event from the watch stream", "err", err)
		return
	}
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")
	status := reporter.AsObject(fmt.Errorf("unable to decode an event from the watch stream: %w", err))
	select {
	case w.events <- watch.Event{Type: watch.Error, Object: status}:
	case <-w.ctx.Done():
	}
}

const maxKnown = 10_000

// undecodable has the keys of listed objects that cannot be decoded. The list has reported these objects as errors, so
// an event about such an object need not cause another list.
type undecodable struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

func (k *undecodable) listed(l *List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, obj := range l.Items {
		k.noteLocked(obj.(*entry.Undecoded))
	}
}

func (k *undecodable) noteLocked(u *entry.Undecoded) {
	switch {
	case u.Err() == nil:
		delete(k.keys, u.Key)
	case len(k.keys) < maxKnown:
		if k.keys == nil {
			k.keys = map[string]struct{}{}
		}
		k.keys[u.Key] = struct{}{}
	}
}

// knows reports whether an event's object u may be delivered: u can be decoded, or a list has reported that it cannot.
func (k *undecodable) knows(u *entry.Undecoded) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if u.Err() == nil {
		k.noteLocked(u)
		return true
	}
	_, known := k.keys[u.Key]
	return known || len(k.keys) >= maxKnown
}
