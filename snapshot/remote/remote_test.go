package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/store"
)

var things = entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"},
	Representation: entry.Unstructured}

// saved returns a snapshot of incompressible objects, and its size.
func saved(t *testing.T, objects int) (path string, size int64) {
	t.Helper()
	dir := t.TempDir()
	st, err := store.Open(filepath.Join(dir, "store.db"), store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	c, err := st.Collection(t.Context(), things, store.CollectionOptions{
		Codec: codec.Unstructured(), Residency: store.None,
		Resource: entry.ResourceInfo{Kind: "Thing", Singular: "thing", Namespaced: true},
	})
	must(t, err)
	list, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	must(t, err)
	_, err = list.Commit(t.Context(), entry.Batch{ResourceVersion: "5", LastContact: time.Now()})
	must(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	var b entry.Batch
	for n := range objects {
		text := make([]byte, 4000)
		for i := range text {
			text[i] = byte('a' + random.IntN(26))
		}
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing", "text": string(text)}}
		u.SetNamespace("ns")
		u.SetName(fmt.Sprintf("n%05d", n))
		u.SetUID("u")
		u.SetResourceVersion(fmt.Sprint(6 + n))
		b.Ops, b.ResourceVersion = append(b.Ops, entry.Op{Object: u}), u.GetResourceVersion()
	}
	_, err = c.Apply(t.Context(), b)
	must(t, err)
	path = filepath.Join(dir, "things.larder")
	_, err = snapshot.SaveStore(t.Context(), st, path, snapshot.SaveOptions{})
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	return path, info.Size()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve serves a file through a handler that may add faults. It returns the URL, with credentials.
func serve(t *testing.T, path string, around func(next http.Handler) http.Handler) (url string, sent *atomic.Int64) {
	t.Helper()
	sent = &atomic.Int64{}
	file := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "me" || password != "hidden" || r.URL.RawQuery != "X-Signature=hidden" {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		http.ServeFile(&counting{w, sent}, r, path)
	})
	s := httptest.NewServer(around(file))
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return strings.Replace(s.URL, "http://", "http://me:hidden@", 1) + "/x/things.larder?X-Signature=hidden", sent
}

type counting struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c *counting) Write(data []byte) (int, error) {
	n, err := c.ResponseWriter.Write(data)
	c.sent.Add(int64(n))
	return n, err
}

func as(next http.Handler) http.Handler { return next }

func read(ctx context.Context, f *snapshot.File) (n int, err error) {
	err = f.Records(ctx, things, func(entry.Entry) error {
		n++
		return nil
	})
	return n, err
}

// cutting cuts each HTTP answer off after a little more than 100 KB.
func cutting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&cut{w, 100 << 10}, r) })
}

type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(data []byte) (int, error) {
	if c.left <= 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	data = data[:min(len(data), c.left)]
	c.left -= len(data)
	return c.ResponseWriter.Write(data)
}

// TestLinks reads snapshots over links that are cut often, from a server with transient errors, and from a server
// without ranges. Opening over a good link must read only a small part.
func TestLinks(t *testing.T) {
	path, size := saved(t, 2000)
	var failures atomic.Int64
	for name, around := range map[string]func(next http.Handler) http.Handler{
		"good": as, "cut": cutting,
		"busy now and then": func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if failures.Add(1)%3 == 0 {
					http.Error(w, "busy", http.StatusServiceUnavailable)
					return
				}
				next.ServeHTTP(w, r)
			})
		},
		"without ranges": func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del("Range")
				next.ServeHTTP(w, r)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, sent := serve(t, path, around)
			f, err := remote.Open(t.Context(), url, remote.Options{})
			must(t, err)
			defer func() { must(t, f.Close()) }()
			if opened := sent.Load(); name == "good" && opened > 1<<20 {
				t.Errorf("to open it took %d of %d bytes", opened, size)
			}
			if n, err := read(t.Context(), f); n != 2000 || err != nil {
				t.Errorf("%d objects, %v", n, err)
			}
			if all := sent.Load(); all > size*5/4 {
				t.Errorf("%d bytes were sent of %d", all, size)
			}
		})
	}
}

// TestRefusals checks that a failed read names its reason, and that no error has the credentials.
func TestRefusals(t *testing.T) {
	path, _ := saved(t, 2000)
	whole, err := os.ReadFile(path)
	must(t, err)
	for name, tt := range map[string]struct {
		around func(next http.Handler) http.Handler
		o      remote.Options
		want   string
	}{
		"not there": {around: func(http.Handler) http.Handler { return http.NotFoundHandler() }, want: "404 Not Found"},
		"replaced": {around: func(next http.Handler) http.Handler {
			n := 0
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n++
				w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(n/4)))
				next.ServeHTTP(w, r)
			})
		}, want: "replaced while it was read"},
		"truncated": {around: func(http.Handler) http.Handler { return content(whole[:len(whole)/2]) }, want: "cut short"},
		"tampered": {around: func(http.Handler) http.Handler {
			changed := bytes.Clone(whole)
			changed[len(changed)/2] ^= 1
			return content(changed)
		}, want: "it is not what was written (SHA-256)"},
		"another range": {around: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Range", "bytes 7-9/10")
				w.WriteHeader(http.StatusPartialContent)
			})
		}, want: "the server answered with the range"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, path, tt.around)
			f, err := remote.Open(t.Context(), url, tt.o)
			if err == nil {
				_, err = read(t.Context(), f)
				must(t, f.Close())
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for _, url := range []string{"ftp://me:hidden@host/x", "http://me:hidden@ho st/x",
		"http://me:hidden@127.0.0.1:1/x?hidden"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, err := remote.Open(ctx, url, remote.Options{}); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", url, err)
		}
		cancel()
	}
}

func content(data []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1, 0), bytes.NewReader(data))
	})
}

// TestEndless checks that the endless answer of a server without range requests is not read to its end.
func TestEndless(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if _, err := remote.Open(t.Context(), server.URL+"/", remote.Options{}); err == nil ||
		!strings.Contains(err.Error(), "knows no ranges") {
		t.Errorf("got %v", err)
	}
}

// trickle is a client that receives 100 bytes every 20 seconds, so its silence never reaches the read timeout.
type trickle struct{}

func (trickle) Do(r *http.Request) (*http.Response, error) {
	var from, to int64
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
		return nil, err
	}
	head := http.Header{"Content-Range": {fmt.Sprintf("bytes %d-%d/%d", from, to, 1<<30)}}
	return &http.Response{StatusCode: http.StatusPartialContent, Header: head, Body: io.NopCloser(trickle{})}, nil
}

func (trickle) Read(data []byte) (int, error) {
	time.Sleep(20 * time.Second)
	return min(len(data), 100), nil
}

// TestTooSlow checks that a read from a link that is never silent, but too slow, is given up.
func TestTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := url.Parse("https://cdn.example.com/x.larder")
		must(t, err)
		began := time.Now()
		f, err := remote.OpenURL(t.Context(), trickle{}, u)
		must(t, err)
		_, err = f.ReadAt(make([]byte, 1<<20), 0)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "too slow") || took > 3*time.Minute {
			t.Errorf("%v, after %v", err, took)
		}
		must(t, f.Close())
	})
}

func TestCanceled(t *testing.T) {
	path, _ := saved(t, 2000)
	n := 0
	url, _ := serve(t, path, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n++; n > 5 {
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	f, err := remote.Open(ctx, url, remote.Options{})
	must(t, err)
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := read(t.Context(), f); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	must(t, f.Close())
	if _, err := remote.Open(t.Context(), "file://"+path, remote.Options{}); err != nil {
		t.Error(err)
	}
}
