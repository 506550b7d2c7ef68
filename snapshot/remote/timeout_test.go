package remote_test

import (
	"context"
	"fmt"
	"io"
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

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
)

// silent is a remote.Files whose methods wait until the context ends.
type silent struct{}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (silent) Open(ctx context.Context, _ string) (remote.File, error) { return nil, wait(ctx) }
func (silent) List(ctx context.Context) ([]remote.Info, error)         { return nil, wait(ctx) }
func (silent) Put(ctx context.Context, _ string, in io.ReadSeeker) error {
	if _, err := in.Read(make([]byte, 10)); err != nil {
		return err
	}
	return wait(ctx)
}
func (silent) Remove(ctx context.Context, _ string) error { return wait(ctx) }

// silentUpload is a Files that never answers a Put, and has no files.
type silentUpload struct{ silent }

func (silentUpload) Open(context.Context, string) (remote.File, error) { return nil, os.ErrNotExist }

// TestSilentServer checks that each operation on a server that never answers fails within minutes.
func TestSilentServer(t *testing.T) {
	path, _ := saved(t, 1)
	o := remote.Options{Schemes: map[string]remote.Scheme{
		"silent":   func(*url.URL) (remote.Files, string, error) { return silent{}, "", nil },
		"noupload": func(*url.URL) (remote.Files, string, error) { return silentUpload{}, "", nil },
	}}
	for name, do := range map[string]func() error{
		"open": func() error {
			_, err := remote.Open(t.Context(), "silent://place/", o)
			return err
		},
		"list": func() error {
			_, err := repository(t, "silent://place/", o).List(t.Context())
			return err
		},
		"push": func() error {
			_, err := push(t, repository(t, "noupload://place/", o), path)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := do()
				if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "for ") ||
					!strings.Contains(err.Error(), "://place/") || took > 6*time.Minute {
					t.Errorf("%v, after %v", err, took)
				}
			})
		})
	}
}

// slowToRespond is a client whose server answers each request just before the timeout, with a byte.
type slowToRespond struct{ trickle }

func (r slowToRespond) Do(request *http.Request) (*http.Response, error) {
	time.Sleep(29 * time.Second)
	answer, err := r.trickle.Do(request)
	if err == nil {
		answer.Body = io.NopCloser(strings.NewReader("x"))
	}
	return answer, err
}

// TestSlowResponses checks that the wait for the start of a response counts towards the limit for slow links.
func TestSlowResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := url.Parse("https://cdn.example.com/x.larder")
		must(t, err)
		began := time.Now()
		f, err := remote.OpenURL(t.Context(), slowToRespond{}, u)
		must(t, err)
		_, err = f.ReadAt(make([]byte, 1<<20), 0)
		if took := time.Since(began); err == nil || took > 5*time.Minute {
			t.Errorf("%v, after %v", err, took)
		}
		must(t, f.Close())
	})
}

type busy struct {
	trickle
	until time.Time
}

func (b *busy) Do(r *http.Request) (*http.Response, error) {
	if time.Now().Before(b.until) {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests",
			Header: http.Header{"Retry-After": {"7"}}, Body: http.NoBody}, nil
	}
	return b.trickle.Do(r)
}

// TestBusy checks that requests to a server that answers 429 are repeated for a minute before the read fails.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := url.Parse("https://cdn.example.com/x.larder")
		must(t, err)
		f, err := remote.OpenURL(t.Context(), &busy{until: time.Now().Add(time.Minute)}, u)
		must(t, err)
		must(t, f.Close())
		began := time.Now()
		_, err = remote.OpenURL(t.Context(), &busy{until: time.Now().Add(time.Hour)}, u)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "429") || took > 3*time.Minute {
			t.Errorf("%v, after %v", err, took)
		}
	})
}

// TestCutWithoutRanges checks that a server without ranges that cuts its answers gets a bounded number of requests.
func TestCutWithoutRanges(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(make([]byte, 100_000))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if _, err := remote.Open(t.Context(), server.URL+"/x.larder", remote.Options{}); err == nil || asked.Load() > 10 {
		t.Errorf("%v, after %d requests", err, asked.Load())
	}
}

// TestRedirect checks that the target of a redirect receives no part of the original URL, which has credentials.
func TestRedirect(t *testing.T) {
	path, _ := saved(t, 1)
	requests := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- fmt.Sprint(r.Header, r.URL)
		http.ServeFile(w, r, path)
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/elsewhere", http.StatusFound)
	}))
	defer first.Close()
	defer http.DefaultClient.CloseIdleConnections()
	f, err := remote.Open(t.Context(), strings.Replace(first.URL, "//", "//me:hidden@", 1)+"/x.larder?signature=hidden",
		remote.Options{})
	must(t, err)
	must(t, f.Close())
	if text := <-requests; strings.Contains(text, "hidden") {
		t.Errorf("the other host was told %s", text)
	}
}

// vanishing is a directory of snapshots. Its latest snapshot is replaced and removed just before it is opened.
type vanishing struct {
	remote.Files
	dir  string
	gone *bool
}

func (v vanishing) Open(ctx context.Context, name string) (remote.File, error) {
	if strings.HasSuffix(name, ".larder") && !*v.gone {
		*v.gone = true
		newer := "20261128T120000Z-000000000000.larder"
		if err := os.Rename(filepath.Join(v.dir, name), filepath.Join(v.dir, newer)); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(v.dir, "latest"), []byte(newer+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	data, err := os.ReadFile(filepath.Join(v.dir, name))
	return inMemory{strings.NewReader(string(data))}, err
}

type inMemory struct{ *strings.Reader }

func (inMemory) Close() error { return nil }

// TestPrunedMeanwhile checks that Open finds the new latest snapshot if the old one is removed after its name was read.
func TestPrunedMeanwhile(t *testing.T) {
	path, _ := saved(t, 1)
	dir := t.TempDir() + "/"
	_, err := push(t, repository(t, dir, remote.Options{}), takenAt(t, path, time.Now(), snapshot.SaveOptions{}))
	must(t, err)
	o := remote.Options{Schemes: map[string]remote.Scheme{"x": func(*url.URL) (remote.Files, string, error) {
		return vanishing{dir: dir, gone: new(bool)}, "", nil
	}}}
	f, err := remote.Open(t.Context(), "x://place/", o)
	must(t, err)
	must(t, f.Close())
}
