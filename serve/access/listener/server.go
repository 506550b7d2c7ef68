package listener

import (
	"crypto/tls"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/internal/connlimit"
	"github.com/larder-dev/larder/serve/access"
)

// Server is an http.Server that limits its connections. Shutdown waits for requests, including watches; Close does not.
type Server struct {
	*http.Server
	connections *connlimit.Limiter
}

const maxIdle = 1000

// NewServer returns a server that limits its connections, and the time and size of request headers. h is a handler of
// access.NewHandler with the same limits, or a handler that passes requests to one. A GET or HEAD with a body returns
// 400 without calling h. config is the result of Certificates.Config; call ServeTLS with "" for both files. Failed
// handshakes are logged at verbosity 2.
func NewServer(h http.Handler, config *tls.Config, l access.Limits, logger logr.Logger) *Server {
	l = l.WithDefaults()
	s := &Server{connections: connlimit.New(connlimit.Options{Total: l.Connections, Unauthenticated: l.Unauthenticated,
		UnauthenticatedPerAddress: l.UnauthenticatedPerAddress, Idle: maxIdle})}
	s.Server = &http.Server{
		Handler: noBodies(h), MaxHeaderBytes: l.Header, IdleTimeout: l.IdleTime,
		// These read deadlines apply until a request is authenticated. Package access then extends the deadline, and
		// removes it for watches.
		ReadHeaderTimeout: l.HeaderTime, ReadTimeout: 2 * l.HeaderTime,
		Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams, MaxReceiveBufferPerConnection: receiveBuffer,
			MaxReceiveBufferPerStream: receiveBuffer, SendPingTimeout: pingAfter, WriteByteTimeout: writeWithin},
		ErrorLog: log.New(serverLog{logger}, "", 0),
	}
	s.connections.Attach(s.Server)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.TLSConfig = withMultiplex(config, func() bool {
		return s.connections.Unauthenticated() <= l.Unauthenticated/multiplexUpTo
	})
	return s
}

const (
	// streams is the maximum number of concurrent requests of an HTTP/2 connection, as in kube-apiserver.
	streams = 100
	// receiveBuffer is the size of the receive buffer of an HTTP/2 connection: the protocol's minimum.
	receiveBuffer = 64 << 10
	// pingAfter is how long an HTTP/2 client may be silent before it gets a ping. writeWithin is how long a write to
	// the client may make no progress.
	pingAfter, writeWithin = 30 * time.Second, 2 * time.Minute
	// multiplexUpTo: clients get HTTP/2 only while unauthenticated connections are at most one in 32 of
	// Limits.Unauthenticated. An unauthenticated client can send as many concurrent requests as its HTTP/2 connection
	// has streams, so most unauthenticated connections must use HTTP/1.1.
	multiplexUpTo = 32
)

// Close closes the listener and all connections without waiting for clients. http.Server.Close would take five seconds
// for each TLS connection whose client does not read. As with http.Server.Close, handlers may still be running
// afterwards.
func (s *Server) Close() error {
	s.connections.Close()
	return s.Server.Close()
}

// serverLog logs net/http's messages: panics of handlers as errors, and faults of clients at verbosity 2.
type serverLog struct{ to logr.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.HasPrefix(text, "http: panic serving") {
		l.to.Error(nil, "A handler panicked", "panic", text)
	} else {
		l.to.V(2).Info("Serving", "problem", text)
	}
	return len(p), nil
}

func noBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method != http.MethodGet && r.Method != http.MethodHead) || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		access.DropBody(w, r)
		access.WriteError(w, r, apierrors.NewBadRequest("a "+r.Method+" request with a body is not answered; send none"))
	})
}
