package listener_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/internal/testca"
	"github.com/larder-dev/larder/serve/access/listener"
)

// pipes is a net.Listener whose connections are pipes in memory, so that tests can use a fake clock.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.accept <- server
	return client
}

type served struct {
	*listener.Server
	ca *x509.CertPool
}

type byToken struct{}

func (byToken) Authenticate(r *http.Request) (access.User, bool, error) {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return access.User{Username: name}, name != "", nil
}

func newServer(t testing.TB, next http.Handler, limits access.Limits) *served {
	t.Helper()
	c := generate(t, filepath.Join(t.TempDir(), "tls"))
	log := logr.Discard()
	h := access.NewHandler(next, access.HandlerOptions{Authenticator: byToken{}, Limits: limits, Logger: &log})
	s := &served{listener.NewServer(h, c.Config(nil), limits, log), x509.NewCertPool()}
	s.ca.AppendCertsFromPEM(c.CA())
	return s
}

func (s *served) start(t testing.TB, l net.Listener) (stop func()) {
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return func() {
		_ = s.Close()
		running.Wait()
		if _, fake := l.(*pipes); fake {
			time.Sleep(time.Minute) // within a minute net/http closes its connections
		}
	}
}

func (s *served) client() *tls.Config { return &tls.Config{RootCAs: s.ca, ServerName: "localhost"} }

func request(t testing.TB, conn net.Conn, text string) int {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

const plain = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer jane\r\n\r\n"

var ok = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "ok")
})

func closedAfter(conn net.Conn) time.Duration {
	began := time.Now()
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(began)
}

func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, ok, access.Limits{})
		l := newPipes()
		defer s.start(t, l)()
		handshake := func() *tls.Conn {
			c := tls.Client(l.dial(), s.client())
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			return c
		}
		check := func(what string, conn net.Conn, want time.Duration) {
			t.Helper()
			if got := closedAfter(conn); got != want {
				t.Errorf("%s: closed after %v, want %v", what, got, want)
			}
		}
		check("nothing is sent", l.dial(), 10*time.Second)
		check("nothing after the handshake", handshake(), 10*time.Second)

		conn := handshake() // a slowloris attack sends a header byte by byte
		began := time.Now()
		go func() { _, _ = io.Copy(io.Discard, conn) }() // the response is read, since pipes do not buffer it
		for _, b := range []byte(plain + strings.Repeat("x", 100)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if got := time.Since(began); got > 12*time.Second {
			t.Errorf("a slow header went on for %v", got)
		}
		conn = handshake()
		if code := request(t, conn, plain); code != http.StatusOK {
			t.Errorf("got %d", code)
		}
		check("idle", conn, 90*time.Second)

		conn = handshake()
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer jane\r\n"+
			"Content-Length: 1000\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		check("a slow body", conn, time.Minute)

		conn = handshake() // the server does not read the body of a request without a token
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		check("a slow body of nobody", conn, 0)
	})
}

func TestLongRequestAfterItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if err := access.LongRunning(r.Context()); err != nil {
				t.Error(err)
			}
			select {
			case <-time.After(time.Hour):
				_, _ = io.WriteString(w, "ok")
			case <-r.Context().Done():
				t.Error("the request was ended")
			}
		}), access.Limits{})
		l := newPipes()
		defer s.start(t, l)()
		conn := tls.Client(l.dial(), s.client())
		if code := request(t, conn, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer jane\r\n"+
			"Content-Length: 1\r\n\r\nx"); code != http.StatusOK {
			t.Errorf("got %d", code)
		}
		// The connection can be used for another request.
		if code := request(t, conn, "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer jane\r\n\r\n"); code != http.StatusOK {
			t.Errorf("got %d", code)
		}
		conn.Close()
	})
}

func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					ended <- time.Since(began)
					return
				}
			}
		}), access.Limits{})
		l := newPipes()
		defer s.start(t, l)()
		conn := tls.Client(l.dial(), s.client())
		if _, err := io.WriteString(conn, plain); err != nil {
			t.Fatal(err)
		}
		// The response ends after 65 s, and net/http takes five more seconds to close the TLS connection.
		if got := <-ended; got != 70*time.Second {
			t.Errorf("the answer ended after %v", got)
		}
		conn.NetConn().Close()
	})
}

func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, ok, access.Limits{})
		l := newPipes()
		defer s.start(t, l)()
		send := func(text string) int {
			conn := tls.Client(l.dial(), s.client())
			defer conn.NetConn().Close()
			go func() { _, _ = io.WriteString(conn, text) }() // the response may arrive before all of the request is sent
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return 0
			}
			return r.StatusCode
		}
		const rest = " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer jane\r\n"
		for what, c := range map[string]struct {
			text string
			want int
		}{
			"selector within the limit": {"GET /?labelSelector=" + strings.Repeat("x", 60<<10) + rest + "\r\n", 200},
			"selector beyond":           {"GET /?labelSelector=" + strings.Repeat("x", 1<<20) + rest + "\r\n", 431},
			"header within the limit":   {"GET /" + rest + "X-Filler: " + strings.Repeat("x", 60<<10) + "\r\n\r\n", 200},
			"header beyond":             {"GET /" + rest + "X-Filler: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 431},
			"many headers":              {"GET /" + rest + strings.Repeat("X-F: y\r\n", 100_000) + "\r\n", 431},
			"endless header":            {"GET /" + rest + "X-Filler: " + strings.Repeat("x", 8<<20), 431},
		} {
			if got := send(c.text); got != c.want {
				t.Errorf("%s: got %d, want %d", what, got, c.want)
			}
		}
	})
}

func isOpen(c net.Conn) bool {
	synctest.Wait()
	_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		s := newServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/block" {
				<-block
			}
		}), access.Limits{Connections: 10})
		l := newPipes()
		defer s.start(t, l)()
		var fresh []net.Conn
		for range 1000 { // these connections have no TLS handshake
			fresh = append(fresh, l.dial())
		}
		for i, c := range fresh {
			if want := i >= 990; isOpen(c) != want {
				t.Fatalf("connection %d of 1000: open is not %v", i, want)
			}
		}
		// Clients with running requests are still served, since their connections are closed last.
		var working, idle []*tls.Conn
		for i := range 10 {
			c := tls.Client(l.dial(), s.client())
			if i < 5 {
				working = append(working, c)
				if _, err := io.WriteString(c, strings.Replace(plain, "/ ", "/block ", 1)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				continue
			}
			idle = append(idle, c)
			if code := request(t, c, plain); code != http.StatusOK {
				t.Fatalf("got %d", code)
			}
			synctest.Wait()
		}
		for i, c := range fresh {
			if isOpen(c) {
				t.Errorf("half-open connection %d is still open", i)
			}
		}
		half := l.dial() // at the limit, a new connection closes the one that was idle for longest
		if isOpen(idle[0].NetConn()) || !isOpen(half) {
			t.Error("the connection that is idle for longest was not closed")
		}
		another := l.dial() // at the limit, connections without a TLS handshake are closed first
		if isOpen(half) || !isOpen(another) {
			t.Error("the older half-open connection was not closed")
		}
		if code := request(t, idle[4], plain); code != http.StatusOK {
			t.Errorf("an idle connection beside half-open ones: got %d", code)
		}
		for range 5 {
			c := tls.Client(l.dial(), s.client())
			if _, err := io.WriteString(c, strings.Replace(plain, "/ ", "/block ", 1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			working = append(working, c)
		}
		if isOpen(l.dial()) {
			t.Error("one connection too many is open")
		}
		close(block)
		for i, c := range working {
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("request %d at work: %v", i, err)
			}
		}
	})
}

// TestHalfOpenConnections checks over real sockets that many connections without a TLS handshake do no harm.
func TestHalfOpenConnections(t *testing.T) {
	s := newServer(t, ok, access.Limits{Connections: 50})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.start(t, l)()
	var half []net.Conn
	defer func() {
		for _, c := range half {
			c.Close()
		}
	}()
	get := func() error {
		transport := &http.Transport{TLSClientConfig: s.client()}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String(), nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer jane")
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("got %d", answer.StatusCode)
		}
		return nil
	}
	n := 1000
	if os.Getenv("LARDER_SOAK") != "" {
		n = 10_000
	}
	for i := range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if half = append(half, c); len(half) > 1000 { // beyond the limit the server closes the oldest connections
			half[0].Close()
			half = half[1:]
		}
		if i%3 == 0 {
			_, _ = c.Write([]byte{22, 3, 1}) // the three bytes begin a TLS handshake
		}
		if i%100 == 99 {
			if err := get(); err != nil {
				t.Fatalf("beside %d half-open connections: %v", i+1, err)
			}
		}
	}
	for i, c := range half[:900] { // the server closes these connections before their read deadlines
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
}

// TestUnauthenticatedConnections checks that at most a thousand connections without an authenticated request stay open
// by default, although Limits.Connections is higher.
func TestUnauthenticatedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, ok, access.Limits{})
		l := newPipes()
		defer s.start(t, l)()
		first := l.dial()
		for range 1000 {
			defer l.dial().Close()
		}
		if after := closedAfter(first); after != 0 {
			t.Errorf("the oldest was closed after %v", after)
		}
	})
}

// TestWatches checks that clients without Multiplex get HTTP/1.1, with a connection for each watch.
func TestWatches(t *testing.T) {
	watching := make(chan struct{}, 1000)
	s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			return
		}
		if err := access.LongRunning(r.Context()); err != nil {
			access.WriteError(w, r, err)
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		watching <- struct{}{}
		<-r.Context().Done()
	}), access.Limits{WatchesPerUser: 200})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.start(t, l)()
	transport := &http.Transport{TLSClientConfig: s.client(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	send := func(ctx context.Context, token, query string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+l.Addr().String()+"/?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%.40s: %v", query, err)
		}
		return answer
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 200 {
		answer := send(ctx, "jane", "watch=1")
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 1 {
			t.Fatalf("got %d by HTTP/%d", answer.StatusCode, answer.ProtoMajor)
		}
	}
	for token, want := range map[string]int{"jane": http.StatusTooManyRequests, "joe": http.StatusOK} {
		answer := send(ctx, token, "watch=1")
		defer answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a watch of %s: got %d", token, answer.StatusCode)
		}
	}
	cancel()
	answer := send(t.Context(), "jane", "labelSelector="+strings.Repeat("x", 60<<10))
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a selector within the limit: got %d", answer.StatusCode)
	}
	answer = send(t.Context(), "", "")
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %d", answer.StatusCode)
	}
}

func TestTLS(t *testing.T) {
	ca, other := testca.New(t, "ca"), testca.New(t, "other")
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, ca.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	clientCA, err := access.NewClientCA(path, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	c := generate(t, filepath.Join(t.TempDir(), "tls"))
	log := logr.Discard()
	h := access.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, _ := access.UserFrom(r.Context())
		_, _ = io.WriteString(w, u.Username+" "+strings.Join(u.Groups, ","))
	}), access.HandlerOptions{Authenticator: clientCA, Logger: &log})
	s := &served{listener.NewServer(h, c.Config(clientCA.Pool), access.Limits{}, log), x509.NewCertPool()}
	s.ca.AppendCertsFromPEM(c.CA())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.start(t, l)()
	get := func(change func(*tls.Config)) (int, string, error) {
		config := s.client()
		config.ServerName = "127.0.0.1"
		change(config)
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String(), nil)
		if err != nil {
			return 0, "", err
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body), err
	}
	pair := ca.Client("jane", "ops")
	var asked []string
	code, body, err := get(func(c *tls.Config) {
		c.GetClientCertificate = func(i *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for _, a := range i.AcceptableCAs {
				asked = append(asked, string(a))
			}
			return &pair, nil
		}
	})
	if err != nil || code != http.StatusOK || body != "jane ops,system:authenticated" {
		t.Errorf("got %d %s, %v", code, body, err)
	}
	if len(asked) != 1 || asked[0] != string(pair.Leaf.RawIssuer) {
		t.Errorf("%d authorities are asked for", len(asked))
	}
	for what, pair := range map[string]tls.Certificate{"none": {}, "another's": other.Client("jane")} {
		code, _, err := get(func(c *tls.Config) {
			if pair.Leaf != nil {
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
		})
		if err != nil || code != http.StatusUnauthorized {
			t.Errorf("%s certificate: got %d, %v", what, code, err)
		}
	}
	old := s.client()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if conn, err := tls.Dial("tcp", l.Addr().String(), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	if _, _, err := get(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12; c.Certificates = []tls.Certificate{pair} }); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
	if _, _, err := get(func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }); err == nil {
		t.Error("a client that does not trust the CA got through")
	}
}
