package endpoint

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestConnections checks that at most 100 connections are open, that a connection ends after its answer, and that a
// probe is answered while any number of connections send no request (issue 37).
func TestConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{})
	s.Start(l)
	defer s.Close()
	dial := func(text string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	get := func() {
		t.Helper()
		c := dial(probe)
		defer c.Close()
		reader := bufio.NewReader(c)
		r, err := http.ReadResponse(reader, nil)
		if err != nil || r.StatusCode != http.StatusOK || !r.Close {
			t.Fatalf("got %v, %v", r, err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		if _, err := reader.ReadByte(); err != io.EOF { //nolint:errorlint // of the connection itself
			t.Fatalf("the connection goes on after the answer: %v", err)
		}
	}
	var waiting []net.Conn
	for i := range 300 {
		waiting = append(waiting, dial([]string{"", "GET /heal", "POST / HTTP/1.1\r\nHost: l\r\nContent-Length: 5\r\n\r\n"}[i%3]))
	}
	get()
	for i, c := range waiting[:200] { // the server closes these connections, so reading each connection ends
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Logf("connection %d: %v", i, err) // a reset also ends the connection
		}
		c.Close()
	}
	get()
	for _, c := range waiting[200:] {
		c.Close()
	}
}
