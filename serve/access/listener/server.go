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

// Server is an http.Server that bounds its connections. Shutdown lets requests end, watches included; Close does not.
type Server struct {
	*http.Server
	connections *connlimit.Limiter
}

// maxIdle is how many authenticated connections may be between two requests.
const maxIdle = 1000

// NewServer returns a server that bounds time and size of headers, and connections. h is a handler of access.NewHandler
// with the same limits, or one that ends in it. A GET or HEAD with a body is answered with 400 before h. config is that
// of Certificates.Config; call ServeTLS with "" for both files. NewServer starts nothing. Failed handshakes are logged
// at the verbosity 2.
func NewServer(h http.Handler, config *tls.Config, l access.Limits, logger logr.Logger) *Server {
	l = l.WithDefaults()
	s := &Server{connections: connlimit.New(connlimit.Options{Total: l.Connections, Strangers: l.Strangers,
		StrangersPerAddress: l.StrangersPerAddress, Idle: maxIdle})}
	s.Server = &http.Server{
		Handler: noBodies(h), MaxHeaderBytes: l.Header, IdleTimeout: l.IdleTime,
		// The access handler extends the deadline of authenticated requests, and lifts that of watches.
		ReadHeaderTimeout: l.HeaderTime, ReadTimeout: 2 * l.HeaderTime,
		Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams, MaxReceiveBufferPerConnection: receiveBuffer,
			MaxReceiveBufferPerStream: receiveBuffer, SendPingTimeout: pingAfter, WriteByteTimeout: writeWithin},
		ErrorLog: log.New(serverLog{logger}, "", 0),
	}
	s.connections.Attach(s.Server)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.TLSConfig = withMultiplex(config, func() bool { return s.connections.Strangers() <= l.Strangers/multiplexUpTo })
	return s
}

const (
	// streams is how many requests an HTTP/2 connection may have at a time: as many as kube-apiserver's.
	streams = 100
	// receiveBuffer is how much of requests' bodies an HTTP/2 connection holds: the least that the protocol allows.
	receiveBuffer = 64 << 10
	// pingAfter is when a silent HTTP/2 client is asked whether it lives, and writeWithin how long it may read nothing.
	pingAfter, writeWithin = 30 * time.Second, 2 * time.Minute
	// multiplexUpTo is the part of Limits.Strangers up to which clients get HTTP/2. Each stranger can make as many
	// requests at a time as its connection has streams, so a crowd of them gets HTTP/1.1.
	multiplexUpTo = 32
)

// Close closes the listener and all connections. Unlike that of http.Server it waits for no client: that one takes five
// seconds to close each TLS connection whose client does not read. Like that one it does not wait for handlers.
func (s *Server) Close() error {
	s.connections.Close()
	return s.Server.Close()
}

// serverLog logs what net/http says: panics of handlers as errors, and what clients do wrong only if asked for.
type serverLog struct{ to logr.Logger }

// Write implements io.Writer.
func (l serverLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.HasPrefix(text, "http: panic serving") {
		l.to.Error(nil, "A handler panicked", "panic", text)
	} else {
		l.to.V(2).Info("Serving", "problem", text)
	}
	return len(p), nil
}

// noBodies refuses requests to read that have a body, and closes their connections.
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
