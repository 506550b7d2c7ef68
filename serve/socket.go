package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/serve/access"
)

// socketReceives is how much the client of a watch over a websocket may send after the handshake, pings included, in
// bytes. There is nothing to be sent, so all of it is dropped.
const socketReceives = 1 << 20

// Errors of the websocket handshake; it ends with 403.
var (
	errNoOrigin    = errors.New("a websocket's request has no Origin")
	errOtherOrigin = errors.New("the page is of another origin, and has sent no token")
)

// asksForSocket reports whether a watch is asked for over a websocket, by kube-apiserver's rule.
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

// hijacked is a ResponseWriter whose connection has been taken from the server.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
	rw   *bufio.ReadWriter
}

// Hijack implements http.Hijacker.
func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, h.rw, nil }

// overSocket upgrades the connection to a websocket and calls serve, which sends the watch. Then it closes the
// connection. The handshake is that of kube-apiserver's library. The request ends when the client closes the websocket
// or sends more than socketReceives.
func (w *watcher) overSocket(serve func()) error {
	conn, rw, err := w.patience.control.Hijack()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	rw.Reader = bufio.NewReader(io.LimitReader(rw.Reader, socketReceives))
	server := websocket.Server{Handshake: w.checkOrigin, Handler: func(socket *websocket.Conn) {
		ctx, cancel := context.WithCancelCause(w.ctx)
		received := make(chan struct{})
		go func() {
			defer close(received)
			_, _ = io.Copy(io.Discard, socket) // answers pings
			cancel(errGone)
		}()
		defer func() {
			cancel(nil)
			w.patience.extend()
			_ = socket.Close()
			<-received
		}()
		w.ctx, w.socket = ctx, socket
		serve()
	}}
	w.patience.extend()
	server.ServeHTTP(hijacked{w.w, conn, rw}, w.r)
	return nil
}

// checkOrigin refuses the pages of other origins, unless a token has been sent and decides alone: browsers send client
// certificates by themselves, and connect to loopback for any page. Like kube-apiserver it refuses a request without an
// Origin.
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

// message sends a frame of the format as one message: JSON as text, and protobuf, without the length that begins a
// frame of a stream, in binary.
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

// sendMessages sends the gathered frames over the websocket.
func (w *watcher) sendMessages() error {
	for _, frame := range w.gathered {
		if err := message.Send(w.socket, socketFrame{w.format.media, frame}); err != nil {
			return err
		}
	}
	return nil
}
