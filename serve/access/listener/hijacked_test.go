package listener_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/serve/access"
)

// TestHijackedConnectionsAreBounded: a hijacked connection is open until its handler returns (issue 38, F.26).
func TestHijackedConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			<-block
		}), access.Limits{Connections: 2})
		l := newPipes()
		defer s.start(t, l)()
		for range 2 {
			if _, err := io.WriteString(tls.Client(l.dial(), s.client()), plain); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if isOpen(l.dial()) {
			t.Error("one connection too many is open")
		}
		close(block)
		time.Sleep(10 * time.Second) // by then the TLS connections are closed
		if !isOpen(l.dial()) {
			t.Error("connections count after the handlers have returned")
		}
	})
}
