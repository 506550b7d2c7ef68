package listener_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/page"
)

// These requests announce a body which is never sent. Their names say how the server responds.
const (
	getWithBody  = "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
	postOfNobody = "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
	chunkedGet   = "GET /page/app.js HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
	refusedGet   = "GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// hang sends a request on a new connection, which stays open, and discards the response.
func (s *served) hang(t testing.TB, l *pipes, text string) net.Conn {
	t.Helper()
	c := tls.Client(l.dial(), s.client())
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	synctest.Wait()
	return c
}

// TestIncompleteBody checks that unauthenticated requests do not close an authenticated connection (issue 37).
func TestIncompleteBody(t *testing.T) {
	for name, text := range map[string]string{
		"page": getWithBody, "chunked": chunkedGet, "refused": refusedGet, "refused POST": postOfNobody,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, ok, access.Limits{Connections: 10})
				s.Handler = page.Files(s.Handler)
				l := newPipes()
				defer s.start(t, l)()
				for range 25 {
					defer s.hang(t, l, text).Close()
				}
				c := tls.Client(l.dial(), s.client())
				defer c.Close()
				if code := request(t, c, plain); code != http.StatusOK {
					t.Errorf("the owner got %d", code)
				}
			})
		})
	}
}

func TestNoBodyOnGET(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, ok, access.Limits{})
		l := newPipes()
		defer s.start(t, l)()
		for _, method := range []string{"GET", "HEAD"} {
			c := tls.Client(l.dial(), s.client())
			text := strings.Replace(plain, "GET", method, 1)
			if _, err := io.WriteString(c, strings.Replace(text, "\r\n\r\n", "\r\nContent-Length: 3\r\n\r\n", 1)); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(c)
			r, err := http.ReadResponse(reader, &http.Request{Method: method})
			if err != nil || r.StatusCode != http.StatusBadRequest {
				t.Fatalf("%s: %v, %v", method, r, err)
			}
			if _, err := io.Copy(io.Discard, reader); err != nil {
				t.Errorf("%s: the connection ended with %v", method, err)
			}
		}
	})
}

// TestUnauthenticatedPerAddress checks that only unauthenticated connections are limited per remote address, since many
// clients may share an address behind NAT.
func TestUnauthenticatedPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, ok, access.Limits{UnauthenticatedPerAddress: 3})
		l := newPipes()
		defer s.start(t, l)()
		var owners []*tls.Conn
		var underlying []net.Conn
		for range 8 {
			c := tls.Client(l.dial(), s.client())
			defer c.Close()
			if code := request(t, c, plain); code != http.StatusOK {
				t.Fatalf("got %d", code)
			}
			owners, underlying = append(owners, c), append(underlying, c.NetConn())
		}
		var unauthenticated []net.Conn
		for range 5 {
			unauthenticated = append(unauthenticated, l.dial())
		}
		synctest.Wait()
		if open := countOpen(unauthenticated); open != 3 {
			t.Errorf("%d unauthenticated connections are open, want 3", open)
		}
		for i, c := range owners {
			if code := request(t, c, plain); code != http.StatusOK {
				t.Errorf("authenticated connection %d got %d", i, code)
			}
		}
		// After a request that fails authentication, a connection counts as unauthenticated again.
		for i, c := range owners {
			if code := request(t, c, refusedGet); code != http.StatusUnauthorized {
				t.Fatalf("authenticated connection %d got %d without credentials", i, code)
			}
			synctest.Wait()
		}
		if open := countOpen(underlying); open != 3 {
			t.Errorf("%d connections without credentials are left, want 3", open)
		}
		for _, c := range unauthenticated {
			c.Close()
		}
	})
}

type addressed struct {
	net.Conn
	from net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.from }

func (p *pipes) dialFrom(address string) net.Conn {
	client, server := net.Pipe()
	p.accept <- addressed{server, &net.TCPAddr{IP: net.ParseIP(address), Port: 1000}}
	return client
}

func countOpen(conns []net.Conn) (open int) {
	for _, c := range conns {
		if isOpen(c) {
			open++
		}
	}
	return open
}

// TestUnauthenticatedOfOtherAddresses checks that unauthenticated connections from one address do not close connections
// from other addresses. All addresses of an IPv6 /64 count as one.
func TestUnauthenticatedOfOtherAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, ok, access.Limits{UnauthenticatedPerAddress: 3})
		l := newPipes()
		defer s.start(t, l)()
		other := l.dialFrom("192.0.2.1")
		defer other.Close()
		for i := range 20 {
			defer l.dialFrom("192.0.2.2").Close()
			defer l.dialFrom(fmt.Sprintf("2001:db8::%x", i+1)).Close()
		}
		synctest.Wait()
		if !isOpen(other) {
			t.Error("a connection was closed for unauthenticated ones of another address")
		}
		first := l.dialFrom("2001:db8:0:1::1")
		defer first.Close()
		for i := range 3 {
			defer l.dialFrom(fmt.Sprintf("2001:db8:0:1::%x", i+2)).Close()
		}
		if isOpen(first) {
			t.Error("addresses of one /64 count apart")
		}
	})
}

// TestUnauthenticatedOfFewAddresses checks that connections of the same few addresses are closed when they open many,
// not an earlier connection of another client (issue 37).
func TestUnauthenticatedOfFewAddresses(t *testing.T) {
	for name, limits := range map[string]access.Limits{
		"unauthenticated": {Unauthenticated: 10, UnauthenticatedPerAddress: 5},
		"connections":     {Connections: 10, Unauthenticated: 20, UnauthenticatedPerAddress: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, ok, limits)
				l := newPipes()
				defer s.start(t, l)()
				other := l.dialFrom("192.0.2.1")
				defer other.Close()
				flood := func(addresses int) (all []net.Conn) {
					for range 20 {
						for i := range addresses {
							all = append(all, l.dialFrom(fmt.Sprintf("198.51.100.%d", i)))
						}
					}
					synctest.Wait()
					if !isOpen(other) {
						t.Errorf("unauthenticated connections of %d addresses closed one of another address", addresses)
					}
					return all
				}
				// Each of the nine addresses has one of the ten allowed connections, and the other client has one.
				for _, addresses := range []int{3, 9, 2, 8} {
					all := flood(addresses)
					if open := countOpen(all); open != 9 {
						t.Errorf("of %d addresses %d unauthenticated connections are open, want 9", addresses, open)
					}
					for _, c := range all {
						c.Close()
					}
					synctest.Wait()
				}
			})
		})
	}
}
