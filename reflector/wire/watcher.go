package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

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
