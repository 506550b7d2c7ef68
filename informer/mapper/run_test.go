package mapper

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/store"
)

// TestRun checks that Run requests discovery once per process, as soon as the server can be reached, and stores the
// answer if it has changed.
func TestRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, path := newAPI(), storePath(t)
		a.change(func(a *api) { a.err = errDown })
		l := begin(t, a, path, true)
		time.Sleep(10 * time.Minute)
		n := a.asked()
		if n < 20 || n > 100 {
			t.Errorf("%d requests in ten minutes without a server", n)
		}
		if s := l.Status(); s.Stored || !errors.Is(s.Err, errDown) {
			t.Errorf("%+v", s)
		}
		a.change(func(a *api) { a.err, a.requests = nil, 0 })
		time.Sleep(time.Hour)
		if s := l.Status(); !s.Stored || s.Err != nil || a.asked() != 2 {
			t.Errorf("%+v, %d requests", s, a.asked())
		}
		l.end()

		l = begin(t, a, path, true)
		synctest.Wait()
		if n, wrote := a.asked(), l.st.Written()-l.written; n != 4 || wrote != 0 {
			t.Errorf("%d requests, and %d bytes written of what is stored already", n, wrote)
		}
		a.set("example.org", "v1", "Widget", "widgets", apidiscoveryv2.ScopeCluster)
		l.has("example.org", "Widget", "example.org/v1, Resource=widgets root")
		synctest.Wait()
		if s := l.Status(); !s.Stored || l.st.Written() == l.written {
			t.Errorf("what a miss has found is not stored: %+v", s)
		}
		l.end()

		time.Sleep(2 * rewriteAfter)
		l = begin(t, a, path, true)
		synctest.Wait()
		if l.st.Written() == l.written {
			t.Error("that the server still says so is not stored")
		}
		l.end()
		a.change(func(a *api) { a.err = errDown })
		l = begin(t, a, path, true)
		l.has("example.org", "Widget", "example.org/v1, Resource=widgets root")
		if s := l.Status(); time.Since(s.AsOf) > time.Minute {
			t.Errorf("%+v", s)
		}
		l.end()
	})
}

// TestRunEnds checks that Run can be stopped while the server hangs. A query that waits for Run's request then sends
// its own request.
func TestRunEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, path := newAPI(), storePath(t)
		a.change(func(a *api) { a.hangs = true })
		l := begin(t, a, path, true)
		synctest.Wait()
		found := make(chan error)
		go func() {
			_, err := l.scope("", "Pod")
			found <- err
		}()
		synctest.Wait()
		a.change(func(a *api) { a.hangs = false })
		start := time.Now()
		l.stop()
		if err := <-found; err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v", d)
		}
		l.run()
		synctest.Wait()
		if s := l.Status(); !s.Stored {
			t.Errorf("%+v", s)
		}
		l.end()
	})
}

func TestShortProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, path := newAPI(), storePath(t)
		l := begin(t, a, path, false)
		l.has("", "Pod", podsAre)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.Run(ctx)
		if s := l.Status(); !s.Stored {
			t.Errorf("%+v", s)
		}
		l.end()
	})
}

// TestFullDisk checks that the mapper answers from memory while the discovery document does not fit on the disk, and
// stores it later.
func TestFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, path := newAPI(), storePath(t)
		for range 200 {
			a.set("example.org", "v1", "Kind"+strings.Repeat("X", 1000), "kinds", apidiscoveryv2.ScopeNamespace)
		}
		quiet := logr.Discard()
		l := beginOn(t, a, path, store.Options{Logger: &quiet, MaxSize: 64 << 10}, true)
		synctest.Wait()
		l.has("", "Pod", podsAre)
		if s := l.Status(); s.Stored || !errors.Is(s.Err, store.ErrNoSpace) {
			t.Errorf("%+v", s)
		}
		a.change(func(a *api) { a.groups = a.groups[:2] })
		time.Sleep(time.Minute)
		if _, err := l.scope("example.org", "Widget"); err == nil { // the miss requests the smaller discovery
			t.Error("there is no such kind")
		}
		synctest.Wait()
		if s := l.Status(); !s.Stored || s.Err != nil {
			t.Errorf("%+v", s)
		}
		l.end()
	})
}

// TestLostDocument checks that Run stores the discovery document without a request after a repair of the file has
// dropped it.
func TestLostDocument(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, path := newAPI(), storePath(t)
		l := begin(t, a, path, true)
		synctest.Wait()
		if err := l.st.PutDocument(t.Context(), "discovery", []byte("x")); err != nil {
			t.Error(err)
		}
		n := a.asked()
		time.Sleep(2 * keepEvery)
		synctest.Wait()
		if d, err := facts.ReadDiscovery(t.Context(), l.st); err != nil || d == nil || a.asked() != n {
			t.Errorf("%d requests, and the store has %v, %v", a.asked()-n, d, err)
		}
		l.end()
	})
}

// TestUnusableDocument checks that the mapper ignores and replaces a stored discovery document that is damaged or of an
// unknown version.
func TestUnusableDocument(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, l *life, path string){
		"damaged": func(t *testing.T, l *life, path string) {
			l.end()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data = bytes.ReplaceAll(data, []byte("deployments"), []byte("Deployments"))
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"of a later version": func(t *testing.T, l *life, _ string) {
			l.stop() // Run would store the right document again
			if err := l.st.PutDocument(t.Context(), "discovery", []byte(`{"version":3,"groups":[]}`)); err != nil {
				t.Error(err)
			}
			l.end()
		},
		"no document": func(t *testing.T, l *life, _ string) {
			l.stop()
			if err := l.st.PutDocument(t.Context(), "discovery", []byte("x")); err != nil {
				t.Error(err)
			}
			l.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a, path := newAPI(), storePath(t)
				l := begin(t, a, path, true)
				synctest.Wait()
				spoil(t, l, path)
				l = begin(t, a, path, false)
				if s := l.Status(); s.Stored || !s.AsOf.IsZero() {
					t.Errorf("%+v", s)
				}
				l.has("apps", "Deployment", deploymentsAre)
				l.run()
				synctest.Wait()
				if s := l.Status(); !s.Stored || s.Err != nil {
					t.Errorf("%+v", s)
				}
				l.end()
			})
		})
	}
}
