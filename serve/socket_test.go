package serve_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
)

type socketWorld struct {
	*world
	guarded *httptest.Server
}

func newSocketWorld(t *testing.T, l access.Limits) *socketWorld {
	t.Helper()
	w := newWorld(t, nil)
	w.fill(3)
	s := httptest.NewServer(access.NewHandler(w.server.Config.Handler,
		access.HandlerOptions{Authenticator: byToken{}, Limits: l}))
	t.Cleanup(s.Close)
	return &socketWorld{w, s}
}

func socketToken(token string) string {
	return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
}

func (w *socketWorld) dial(path, accept string) *websocket.Conn {
	w.t.Helper()
	c, err := websocket.NewConfig("ws"+strings.TrimPrefix(w.guarded.URL, "http")+path, w.guarded.URL)
	must(w.t, err)
	c.Protocol = []string{socketToken("jane"), "binary.k8s.io"}
	if accept != "" {
		c.Header.Set("Accept", accept)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second) // the context bounds only the handshake
	defer cancel()
	socket, err := c.DialContext(ctx)
	must(w.t, err)
	w.t.Cleanup(func() { _ = socket.Close() })
	if got := strings.Join(socket.Config().Protocol, ","); got != "binary.k8s.io" {
		w.t.Errorf("the subprotocol is %q", got)
	}
	return socket
}

func (w *socketWorld) chunked(path, accept string) *bufio.Reader {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.guarded.URL+path, nil)
	must(w.t, err)
	r.Header.Set("Authorization", "Bearer jane")
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	must(w.t, err)
	w.t.Cleanup(func() { _ = answer.Body.Close() })
	return bufio.NewReader(answer.Body)
}

// TestWatchOverWebsocket checks that a watch over a websocket has the events of a watch over plain HTTP, one in each
// message: text for JSON, binary for protobuf (issue 38, F.26).
func TestWatchOverWebsocket(t *testing.T) {
	w := newSocketWorld(t, access.Limits{})
	path := "/api/v1/namespaces/a/pods?watch=1"
	text, lines := w.dial(path, ""), w.chunked(path, "application/json")
	const protobuf = "application/vnd.kubernetes.protobuf"
	packed, frames := w.dial(path, protobuf), w.chunked(path, protobuf)
	for i := range 5 {
		if i == 2 {
			w.create(newPod("a", "x1"), newPod("b", "x2"), newPod("a", "x3"), newPod("a", "x4"))
		}
		var got string
		must(t, websocket.Message.Receive(text, &got))
		if want, err := lines.ReadString('\n'); err != nil || got != want {
			t.Errorf("the message is %q, want %q, %v", got, want, err)
		}
		var length uint32
		must(t, binary.Read(frames, binary.BigEndian, &length))
		want := make([]byte, length)
		_, err := io.ReadFull(frames, want)
		must(t, err)
		var binary []byte
		must(t, websocket.Message.Receive(packed, &binary))
		if string(binary) != string(want) {
			t.Errorf("the message is %q, want %q", binary, want)
		}
	}
	if text.PayloadType != websocket.TextFrame {
		t.Errorf("the type of JSON is %d", text.PayloadType)
	}
}

// TestWebsocketEnds checks the three ends of a watch over a websocket: a 410 event, the watch's timeout, and a close
// frame of the client. After a close frame the limit of watches allows another watch.
func TestWebsocketEnds(t *testing.T) {
	w := newSocketWorld(t, access.Limits{Watches: 1})
	last := func(socket *websocket.Conn) (text string) {
		for {
			var next string
			if err := websocket.Message.Receive(socket, &next); err != nil {
				return text
			}
			text = next
		}
	}
	wait := func() {
		t.Helper()
		eventually(t, func() bool {
			code, _, conn := w.raw(http.Header{"Origin": {w.guarded.URL}})
			_ = conn.Close()
			return code == http.StatusSwitchingProtocols
		}, func() string { return "the watch has not ended" })
	}
	if got := last(w.dial("/api/v1/pods?watch=1&resourceVersion=1", "")); !strings.Contains(got, `"type":"ERROR"`) ||
		!strings.Contains(got, `"code":410`) {
		t.Errorf("a watch from long ago ends with %q", got)
	}
	wait()
	var timed *websocket.Conn
	eventually(t, func() bool {
		c, err := websocket.NewConfig("ws"+strings.TrimPrefix(w.guarded.URL, "http")+
			"/api/v1/pods?watch=1&timeoutSeconds=1", w.guarded.URL)
		must(t, err)
		c.Header.Set("Authorization", "Bearer jane")
		timed, err = c.DialContext(t.Context())
		return err == nil
	}, func() string { return "no place for a watch" })
	if got := last(timed); !strings.Contains(got, "ADDED") {
		t.Errorf("a watch whose time is over ends with %q", got)
	}
	wait()
	list, err := w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var silent net.Conn
	eventually(t, func() (ok bool) {
		var code int
		code, _, silent = w.raw(http.Header{"Origin": {w.guarded.URL}}, "&resourceVersion="+list.ResourceVersion)
		return code == http.StatusSwitchingProtocols
	}, func() string { return "no place for a watch" })
	code, body, second := w.raw(http.Header{"Origin": {w.guarded.URL}})
	_ = second.Close()
	if code != http.StatusTooManyRequests {
		t.Errorf("a second watch: %d %s", code, body)
	}
	_, err = silent.Write(frame(8, "\x03\xe8")) // a close frame; the connection stays open
	must(t, err)
	wait()
}

func (w *socketWorld) raw(header http.Header, query ...string) (code int, body string, conn net.Conn) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.guarded.Listener.Addr().String())
	must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	r, err := http.NewRequest(http.MethodGet, w.guarded.URL+"/api/v1/pods?watch=1"+strings.Join(query, ""), nil)
	must(w.t, err)
	r.Header = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"MDEyMzQ1Njc4OWFiY2RlZg=="}, "Authorization": {"Bearer jane"}}
	for name, values := range header {
		r.Header[name] = values
	}
	must(w.t, r.Write(conn))
	answer, err := http.ReadResponse(bufio.NewReader(conn), r)
	must(w.t, err)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(answer.Body)
		body = string(text)
	}
	return answer.StatusCode, body, conn
}

// TestWebsocketOrigin checks that a web page of another origin gets no watch without a token, and that a request
// without Origin is rejected as in kube-apiserver.
func TestWebsocketOrigin(t *testing.T) {
	w := newSocketWorld(t, access.Limits{})
	open := &socketWorld{w.world, w.server}
	for _, tt := range []struct {
		name   string
		to     *socketWorld
		header http.Header
		want   int
	}{
		{"the same origin", open, http.Header{"Origin": {w.server.URL}}, 101},
		{"another origin", open, http.Header{"Origin": {"https://evil.example"}}, 403},
		{"another origin, with a token", w, http.Header{"Origin": {"https://app.example"}}, 101},
		{"no origin", w, nil, 403},
		{"an opaque origin", w, http.Header{"Origin": {"null"}}, 403},
		{"no token", w, http.Header{"Origin": {w.guarded.URL}, "Authorization": nil}, 401},
		{"two subprotocols", w, http.Header{"Origin": {w.guarded.URL}, "Sec-Websocket-Protocol": {"a, b"}}, 400},
		{"another format", w, http.Header{"Origin": {w.guarded.URL}, "Accept": {"text/html"}}, 406},
	} {
		if code, body, _ := tt.to.raw(tt.header); code != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, code, body, tt.want)
		}
	}
}

// frame returns a websocket frame of a client, which must be masked. The mask is zero.
func frame(opcode byte, payload string) []byte {
	return append([]byte{0x80 | opcode, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// TestWebsocketClientSends checks that a ping is answered, and that a client that sends without end is disconnected.
func TestWebsocketClientSends(t *testing.T) {
	w := newSocketWorld(t, access.Limits{})
	_, _, conn := w.raw(http.Header{"Origin": {w.guarded.URL}})
	_, err := conn.Write(frame(9, "are you there"))
	must(t, err)
	from := bufio.NewReader(conn)
	for found := false; !found; {
		b, err := from.ReadByte()
		must(t, err)
		found = b == 0x8a // a pong begins with this byte, which does not occur in JSON
	}
	pong := make([]byte, 14)
	_, err = io.ReadFull(from, pong)
	if must(t, err); string(pong[1:]) != "are you there" {
		t.Errorf("pong %q", pong)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, from)
	}()
	junk := []byte(strings.Repeat(string(frame(2, strings.Repeat("a", 100))), 100))
	for range 1000 { // up to 10 MB
		if _, err = conn.Write(junk); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("a client may send 10 MB")
		_ = conn.Close()
	}
	<-ended
}

func TestWebsocketSuspended(t *testing.T) {
	w := newSocketWorld(t, access.Limits{})
	_, _, _ = w.raw(http.Header{"Origin": {w.guarded.URL}})
	p := newPod("a", "large")
	p.Annotations = map[string]string{"a": strings.Repeat("a", 200<<10)}
	w.create(p)
	for i := range 100 { // 100 pods are more events than kernels buffer
		p, err := w.admin.CoreV1().Pods("a").Get(t.Context(), "large", metav1.GetOptions{})
		must(t, err)
		p.Labels["step"] = fmt.Sprint(i)
		_, err = w.admin.CoreV1().Pods("a").Update(t.Context(), p, metav1.UpdateOptions{})
		must(t, err)
	}
	w.caughtUp()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	closed := make(chan struct{})
	close := w.close
	w.close = func() {}
	go func() {
		defer func() { closed <- struct{}{} }()
		close()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Error("the handler waits for the client")
		<-closed
	}
}

type hijackable struct {
	http.ResponseWriter
	net.Conn
}

func (h hijackable) Write(data []byte) (int, error) { return h.ResponseWriter.Write(data) }

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.Conn, bufio.NewReadWriter(bufio.NewReader(h.Conn), bufio.NewWriter(h.Conn)), nil
}

func TestWebsocketRightRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rights := &switched{}
		h, err := serve.New(serve.Store(smallStore(t)), serve.Options{Authorizer: rights})
		must(t, err)
		defer func() { must(t, h.Close()) }()
		server, client := net.Pipe()
		r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=1&resourceVersion=7", nil)
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Key": {"MDEyMzQ1Njc4OWFiY2RlZg=="}, "Origin": {"http://" + r.Host}}
		go access.NewHandler(h, access.HandlerOptions{Authenticator: as(access.User{Username: "jane"})}).
			ServeHTTP(hijackable{httptest.NewRecorder(), server}, r)
		received := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(client)
			received <- string(all)
		}()
		time.Sleep(10 * time.Minute)
		rights.set(func() { rights.no = true })
		select {
		case got := <-received:
			if !strings.HasPrefix(got, "HTTP/1.1 101 ") || !strings.Contains(got, `"type":"ERROR"`) ||
				!strings.Contains(got, `"code":403`) || !strings.HasSuffix(got, "\x88\x02\x03\xe8") {
				t.Errorf("the watch ended with %q", got)
			}
		case <-time.After(2 * time.Minute):
			t.Error("the watch goes on without the right to it")
			_ = client.Close()
		}
		time.Sleep(time.Minute)
	})
}
