package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/store/history"
)

func (w *watcher) write(frame []byte) {
	w.first = false
	w.gathered, w.size = append(w.gathered, frame), w.size+len(frame)
}

var errGone = errors.New("the client has gone")

// joined are buffers in which small encoded events are joined, to be sent in one write.
var joined = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, joinedBytes)) }}

func (w *watcher) flushFull() error {
	if w.size < joinedBytes {
		return nil
	}
	return w.flush()
}

// flush sends the gathered events to the client. It fails with errMemory if the memory budget has no memory for them,
// and with errGone if the client does not read.
func (w *watcher) flush() error {
	err := w.holdGathered()
	if err == nil {
		w.writeDeadline.extend()
		if w.send() != nil || w.socket == nil && w.writeDeadline.control.Flush() != nil {
			err = errGone
		}
	}
	clear(w.gathered)
	w.gathered, w.size = w.gathered[:0], 0
	if !w.initial {
		w.lease.release()
	}
	return err
}

// holdGathered acquires the memory of the events to be sent. They count in full even if other watches share them: a
// slow client keeps them after the other watches have sent them.
func (w *watcher) holdGathered() error {
	if w.initial || w.size <= unbudgetedBytes {
		return nil
	}
	return w.lease.resize(w.ctx, int64(w.size)+joinedBytes, memoryWait)
}

func (w *watcher) holdRendering(e entry.Entry) error {
	need := w.collection.renderer.memory(w.format, e)
	if need <= renderedFree {
		return nil
	}
	return w.lease.resize(w.ctx, need+int64(w.size), memoryWait)
}

// send writes the gathered events to the client. It joins small events into one write. Large events are written without
// a copy, since other watches share them.
func (w *watcher) send() error {
	if w.socket != nil {
		return w.sendMessages()
	}
	if len(w.gathered) == 1 {
		_, err := w.w.Write(w.gathered[0])
		return err
	}
	small := joined.Get().(*bytes.Buffer)
	defer func() {
		small.Reset()
		joined.Put(small)
	}()
	for i, frame := range w.gathered {
		if small.Len() > 0 && small.Len()+len(frame) > joinedBytes {
			if _, err := w.w.Write(small.Bytes()); err != nil {
				return err
			}
			small.Reset()
		}
		w.gathered[i] = nil
		if len(frame) <= joinedBytes {
			small.Write(frame)
		} else if _, err := w.w.Write(frame); err != nil {
			return err
		}
	}
	_, err := w.w.Write(small.Bytes())
	return err
}

// frames caches the newest watch events of a collection in encoded form, so that an event is encoded once for all
// watches with the same format. It is safe for concurrent use.
type frames struct {
	mu sync.Mutex
	// made has the encoded events. mu guards made, order and bytes.
	made  map[frameKey]*frame
	order []frameKey
	bytes int
}

// framesBytes bounds the size of the cached encoded events of a collection. frameOverhead is the memory of a cached
// event besides its encoded data, in bytes.
const (
	framesBytes   = 4 << 20
	frameOverhead = 256
)

// errEncodePanicked is the error for watches that wait for an event whose encoder panics in another watch.
var errEncodePanicked = errors.New("the event could not be encoded")

type frameKey struct {
	event     *history.Event
	eventType watch.EventType
	of        format
	// first is true if the event begins a Table watch: its row is sent with the column definitions.
	first bool
	// second is the Unix time at which the ages in a Table's row are computed; 0 for forms without ages.
	second int64
}

type frame struct {
	once sync.Once
	data []byte
	err  error
	// size is the memory of the encoded event; 0 until it is encoded. frames.mu guards size.
	size int
}

func newFrames() *frames { return &frames{made: map[frameKey]*frame{}} }

// get returns an encoded event from the cache. If the event is missing, the first caller encodes it, and concurrent
// callers wait for the result.
func (s *frames) get(key frameKey, encode func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	f := s.made[key]
	if f == nil {
		f = &frame{}
		s.made[key], s.order = f, append(s.order, key)
	}
	s.mu.Unlock()
	f.once.Do(func() {
		f.err = errEncodePanicked
		f.data, f.err = encode()
		s.added(key, f)
	})
	return f.data, f.err
}

func (s *frames) has(key frameKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.made[key]
	return f != nil && f.size > 0
}

// added counts the memory of an encoded event, unless the event was evicted while it was encoded. It then evicts the
// oldest events that exceed framesBytes.
func (s *frames) added(key frameKey, f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[key] != f {
		return
	}
	f.size = frameOverhead + len(f.data) + key.event.Size() // the cache may keep the event itself in memory
	s.bytes += f.size
	for s.bytes > framesBytes && len(s.order) > 1 {
		s.bytes -= s.made[s.order[0]].size
		delete(s.made, s.order[0])
		s.order = s.order[1:]
	}
}

func (w *watcher) frame(eventType watch.EventType, e entry.Entry, first bool) ([]byte, error) {
	object, err := w.collection.item(w.format, e, true, time.Now())
	if err != nil {
		return nil, err
	}
	if w.format.form == table {
		if object, err = w.tableOf(object, e.ResourceVersion, first); err != nil {
			return nil, err
		}
	}
	return w.format.frame(eventType, object), nil
}

// tableOf returns a Table with one row. Only the first Table of a watch has the column definitions.
func (w *watcher) tableOf(row []byte, rv string, first bool) ([]byte, error) {
	definitions := []byte("null")
	if first {
		var err error
		if definitions, err = json.Marshal(w.collection.columns.Definitions()); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, `{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":{"resourceVersion":%q},`+
		`"columnDefinitions":%s,"rows":[%s]}`, w.format.version, rv, definitions, row), nil
}

func (f format) frame(eventType watch.EventType, object []byte) []byte {
	if f.media == mediaProtobuf {
		return appendWatchFrame(nil, string(eventType), object)
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", eventType, object)
}

// socketReceives is the maximum size, in bytes, of the data that the client of a watch over a websocket may send after
// the handshake. Data are dropped; pings count, too.
const socketReceives = 1 << 20

// These errors of the websocket handshake lead to 403.
var (
	errNoOrigin    = errors.New("a websocket's request has no Origin")
	errOtherOrigin = errors.New("the page is of another origin, and has sent no token")
)

// asksForSocket reports whether the request upgrades to a websocket, by kube-apiserver's rule.
func asksForSocket(r *http.Request) bool {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for _, option := range strings.Split(r.Header.Get("Connection"), ",") {
		if strings.EqualFold(strings.TrimSpace(option), "upgrade") {
			return true
		}
	}
	return false
}

// hijacked is a ResponseWriter for a connection that was hijacked before.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
	rw   *bufio.ReadWriter
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, h.rw, nil }

// overSocket upgrades the connection to a websocket, calls serve, which sends the watch, and closes the connection. The
// websocket library, and so the handshake, is kube-apiserver's. The context ends when the client closes the websocket
// or sends more than socketReceives.
func (w *watcher) overSocket(serve func()) error {
	conn, rw, err := w.writeDeadline.control.Hijack()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	rw.Reader = bufio.NewReader(io.LimitReader(rw.Reader, socketReceives))
	server := websocket.Server{Handshake: w.checkOrigin, Handler: func(socket *websocket.Conn) {
		ctx, cancel := context.WithCancelCause(w.ctx)
		received := make(chan struct{})
		go func() {
			defer close(received)
			_, _ = io.Copy(io.Discard, socket) // the websocket library answers pings
			cancel(errGone)
		}()
		defer func() {
			cancel(nil)
			w.writeDeadline.extend()
			_ = socket.Close()
			<-received
		}()
		w.ctx, w.socket = ctx, socket
		serve()
	}}
	w.writeDeadline.extend()
	server.ServeHTTP(hijacked{w.w, conn, rw}, w.r)
	return nil
}

// checkOrigin rejects pages of other origins, unless the request carries a token and no client certificate. Browsers
// send client certificates for any page, and let any page connect to loopback. Like kube-apiserver, checkOrigin rejects
// a request without Origin.
func (w *watcher) checkOrigin(config *websocket.Config, r *http.Request) (err error) {
	config.Origin, err = websocket.Origin(config, r)
	_, known := access.UserFrom(r.Context())
	certificate := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	switch {
	case err != nil:
		return err
	case config.Origin == nil:
		return errNoOrigin
	case strings.EqualFold(config.Origin.Host, r.Host), known && !certificate && r.Header.Get("Authorization") != "":
		return nil
	}
	return errOtherOrigin
}

// message sends an encoded event as one websocket message: JSON as text, and protobuf as binary, without the length
// prefix of HTTP streams.
var message = websocket.Codec{Marshal: func(v any) (data []byte, payloadType byte, err error) {
	if frame := v.(socketFrame); frame.media == mediaProtobuf {
		return frame.data[binary.Size(uint32(0)):], websocket.BinaryFrame, nil
	}
	return v.(socketFrame).data, websocket.TextFrame, nil
}}

type socketFrame struct {
	media media
	data  []byte
}

func (w *watcher) sendMessages() error {
	for _, frame := range w.gathered {
		if err := message.Send(w.socket, socketFrame{w.format.media, frame}); err != nil {
			return err
		}
	}
	return nil
}
