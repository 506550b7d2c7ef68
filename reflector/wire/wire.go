package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/larder-dev/larder/codec"
)

// maxObject is the largest object, frame or value that is read, in bytes. API servers refuse objects of more than a few
// MiB; aggregated ones may not.
const maxObject = 64 << 20

// bufferSize is the size of the buffer that an answer is read through.
const bufferSize = 64 << 10

// Errors of answers.
var (
	errTooLarge = fmt.Errorf("the server sent an object of more than %d MiB", maxObject>>20)
	errFormat   = errors.New("the server answered in neither protobuf nor JSON")
	errEmpty    = errors.New("the server sent an empty answer")
	errNoList   = errors.New("the server sent something else than a list")
)

// Requests makes the request for a list or, with o.Watch, for a watch.
type Requests func(o metav1.ListOptions) *rest.Request

// New returns a ListerWatcher that makes the requests, and makes the objects with sent.
func New(requests Requests, sent *codec.Sent) cache.ListerWatcherWithContext {
	return &listWatch{requests, sent}
}

type listWatch struct {
	requests Requests
	sent     *codec.Sent
}

// List is a page of a list. Its items are of the type *entry.Undecoded.
type List struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object. The objects are shared, since they are immutable.
func (l *List) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = append([]runtime.Object(nil), l.Items...)
	return &c
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (w *listWatch) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	body, err := w.requests(o).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	r := bufio.NewReaderSize(body, bufferSize)
	l, err := w.list(r)
	if err == nil {
		// What follows is read, so that the connection can be used again.
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		return nil, reading(err)
	}
	return l, nil
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

// isJSON reports whether what comes next is JSON, and not protobuf.
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
	case magic[0], 0: // 0 begins the length of a frame
		return false, nil
	}
	return false, errFormat
}

// reading wraps the error of an answer that broke off as client-go does, whose reflector and ours know it by that.
func reading(err error) error {
	var answered apierrors.APIStatus
	if errors.As(err, &answered) {
		return err
	}
	return fmt.Errorf("reading response body: %w", err)
}

// WatchWithContext implements cache.ListerWatcherWithContext. As in client-go, a watch does not wait for the client's
// rate limiter.
func (w *listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	body, err := w.requests(o).Throttle(flowcontrol.NewFakeAlwaysRateLimiter()).Stream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return newWatcher(ctx, cancel, body, w.sent), nil
}
