package contract

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// socketAnswer is the answer to a watch over a websocket, without varying headers. Frames are the payloads in order.
type socketAnswer struct {
	Status string
	Header http.Header
	Body   string
	Frames []string
}

func (w *world) socket(ctx context.Context, t *target, r Request, header http.Header) (a socketAnswer, err error) {
	if r, err = w.resolve(ctx, t, r); err != nil {
		return a, err
	}
	at, err := url.Parse(t.url)
	if err != nil {
		return a, err
	}
	config := t.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = nil
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	q, err := http.NewRequestWithContext(ctx, r.Method, t.url+r.Path+"?"+r.Query, nil)
	if err != nil {
		return a, err
	}
	q.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"MDEyMzQ1Njc4OWFiY2RlZg=="}, "Authorization": {"Bearer " + t.token}, "Origin": {t.url}}
	for name, values := range header {
		q.Header[name] = nil
		for _, value := range values {
			token := base64.RawURLEncoding.EncodeToString([]byte(t.token))
			q.Header[name] = append(q.Header[name], strings.ReplaceAll(value, "{token}", token))
		}
	}
	if err := q.Write(conn); err != nil {
		return a, err
	}
	from := bufio.NewReader(conn)
	answer, err := http.ReadResponse(from, q)
	if err != nil {
		return a, err
	}
	a.Status, a.Header = answer.Status, answer.Header
	for _, name := range changing {
		a.Header.Del(name)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		body, err := io.ReadAll(answer.Body)
		a.Body = states.ReplaceAllString(string(body), "")
		return a, err
	}
	a.Frames, err = readFrames(from)
	slices.Sort(a.Frames)
	return a, err
}

// states matches resourceVersions in payloads. They are not compared, because larder's resourceVersions are per
// resource.
var states = regexp.MustCompile(`\(\d+\)|"resourceVersion":"\d+"},"items"`)

// bookmarksLast moves bookmarks to the end of the frames, and keeps one bookmark of each form.
func bookmarksLast(frames []string) (sorted []string) {
	var bookmarks []string
	for _, f := range frames {
		switch {
		case !strings.Contains(f, `"type":"BOOKMARK"`):
			sorted = append(sorted, f)
		default:
			f = bookmarkVersion.ReplaceAllString(f, `"resourceVersion":"N"`)
			if !slices.Contains(bookmarks, f) {
				bookmarks = append(bookmarks, f)
			}
		}
	}
	return append(sorted, bookmarks...)
}

var bookmarkVersion = regexp.MustCompile(`"resourceVersion":"\d+"`)

// readFrames reads websocket frames until the end of the connection. Each result is the first byte of a frame and the
// payload.
func readFrames(from *bufio.Reader) (frames []string, err error) {
	for {
		first, err := from.ReadByte()
		if err != nil {
			return frames, nil //nolint:nilerr // the connection has ended
		}
		short, err := from.ReadByte()
		length := uint64(short)
		switch {
		case err != nil:
		case short == 126:
			var n uint16
			err = binary.Read(from, binary.BigEndian, &n)
			length = uint64(n)
		case short == 127:
			err = binary.Read(from, binary.BigEndian, &length)
		}
		if err != nil {
			return frames, err
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(from, payload); err != nil {
			return frames, err
		}
		frames = append(frames, fmt.Sprintf("%x %s", first, states.ReplaceAll(payload, nil)))
	}
}

// TestWebsockets checks that larder answers watches over websockets like kube-apiserver: handshake, headers,
// subprotocol and frames (issue 38, F.26).
func TestWebsockets(t *testing.T) {
	watch := Request{Method: "GET", Path: pods.in("shop"), Query: "watch=1&timeoutSeconds=2"}
	// kube-apiserver sends a bookmark two to three seconds before the end of a watch, and none in a shorter watch. Larder
	// sends one only if the resourceVersion has moved since the last event: here by pods of other namespaces.
	bookmarked := Request{Method: "GET", Path: pods.in("empty"),
		Query: "watch=1&timeoutSeconds=6&allowWatchBookmarks=true&" + query("resourceVersion", pods.mid())}
	const token = "base64url.bearer.authorization.k8s.io."
	for _, c := range []struct {
		name    string
		request Request
		header  http.Header
		status  int
	}{
		{"all", watch, nil, 101},
		{"a token in a subprotocol", watch, http.Header{"Authorization": nil,
			"Sec-Websocket-Protocol": {token + "{token}, base64.binary.k8s.io"}}, 101},
		{"two headers", watch, http.Header{"Authorization": nil,
			"Sec-Websocket-Protocol": {"binary.k8s.io", token + "{token}"}}, 101},
		{"a subprotocol", watch, http.Header{"Sec-Websocket-Protocol": {"binary.k8s.io"}}, 101},
		{"two subprotocols", watch, http.Header{"Sec-Websocket-Protocol": {"binary.k8s.io, channel.k8s.io"}}, 400},
		{"nothing beside the token", watch, http.Header{"Authorization": nil,
			"Sec-Websocket-Protocol": {token + "{token}"}}, 401},
		{"two tokens", watch, http.Header{"Authorization": nil,
			"Sec-Websocket-Protocol": {token + "{token}, " + token + "{token}, a"}}, 401},
		{"another token", watch, http.Header{"Authorization": nil,
			"Sec-Websocket-Protocol": {token + "bm9uZQ, a"}}, 401},
		{"no base64", watch, http.Header{"Authorization": nil, "Sec-Websocket-Protocol": {token + "=, a"}}, 401},
		{"no token", watch, http.Header{"Authorization": nil, "Sec-Websocket-Protocol": {"a"}}, 401},
		{"protobuf", watch, http.Header{"Accept": {"application/vnd.kubernetes.protobuf"}}, 101},
		{"metadata", watch, http.Header{"Accept": {metadataOne}}, 101},
		{"another format", watch, http.Header{"Accept": {"text/html"}}, 406},
		{"another origin with a token", watch, http.Header{"Origin": {"https://app.example"}}, 101},
		{"no origin", watch, http.Header{"Origin": nil}, 403},
		{"an opaque origin", watch, http.Header{"Origin": {"null"}}, 403},
		{"another version", watch, http.Header{"Sec-Websocket-Version": {"8"}}, 400},
		{"no key", watch, http.Header{"Sec-Websocket-Key": nil}, 400},
		{"several options", watch, http.Header{"Connection": {"keep-alive, upgrade"}, "Upgrade": {"WebSocket"}}, 101},
		{"from before history", watch.with("resourceVersion", "{ancient}"), nil, 101},
		{"from now", watch.with("resourceVersion", pods.now()), nil, 101},
		{"with bookmarks", bookmarked, nil, 101},
		{"custom resources", Request{Method: "GET", Path: gadgets.all(), Query: watch.Query}, nil, 101},
		{"a list", Request{Method: "GET", Path: pods.in("empty")}, nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			want, err := shared.socket(ctx, shared.upstream, c.request, c.header)
			if err != nil {
				t.Fatal("kube-apiserver: ", err)
			}
			got, err := shared.socket(ctx, mirrored, c.request, c.header)
			if err != nil {
				t.Fatal("larder: ", err)
			}
			// The number of bookmarks in a watch depends on its duration, so repeated bookmarks are dropped.
			want.Frames, got.Frames = bookmarksLast(want.Frames), bookmarksLast(got.Frames)
			if diff := cmp.Diff(want, got); diff != "" || !strings.HasPrefix(want.Status, fmt.Sprint(c.status)) {
				t.Errorf("%s (-kube-apiserver +larder):\n%s", want.Status, diff[:min(len(diff), 3000)])
			}
		})
	}
}
