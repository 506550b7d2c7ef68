package informer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// mirror is a program with a durable handler that keeps a list of its calls, and can block in some of them.
type mirror struct {
	st   *store.Store
	stop func()

	unregistered bool
	calls        []string
	// at, if set, is called at the beginning of OnChange. Its error fails the call.
	at func(ctx context.Context, key string) error
}

func (m *mirror) handler() durable.Handler {
	return durable.Handler{OnChange: m.change, OnReset: m.reset, OnReplayed: m.replayed}
}

func (m *mirror) change(ctx context.Context, c consumer.Change) error {
	if m.at != nil {
		if err := m.at(ctx, c.Key); err != nil {
			return err
		}
	}
	verb := "+"
	if c.Type == entry.Delete {
		verb = "-"
	}
	m.calls = append(m.calls, verb+" "+c.Key)
	return nil
}

func (m *mirror) reset(_ context.Context, why consumer.ResetReason) error {
	m.calls = append(m.calls, fmt.Sprintf("reset %s", why))
	return nil
}

func (m *mirror) replayed(context.Context) error {
	m.calls = append(m.calls, "replayed")
	return nil
}

// runMirror runs the program m on a store file, and returns when its durable handler has processed all changes.
func runMirror(t *testing.T, srv TestServer, path string, m *mirror) *mirror {
	t.Helper()
	quiet := logr.Discard()
	st, err := store.Open(path, store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	m.st = st
	i, err := informer.New(srv, &corev1.Pod{}, informer.Options{
		Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
		Store:    st, Residency: testresidency.Of(t), Logger: &quiet,
	})
	if err == nil && !m.unregistered {
		_, err = i.Durable().Add("mirror", m.handler())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	m.stop = func() {
		cancel()
		<-done
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	waitMirrorIdle()
	return m
}

func waitMirrorIdle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

// asKilled returns a copy of the store file that includes all changes so far, as a process that is killed now may leave
// it.
func (m *mirror) asKilled(t *testing.T) (path string) {
	t.Helper()
	name, err := m.st.CopyFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "larder.db")
	if err := os.Rename(name, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDurableHandlerKilledInACall checks that the process after a kill repeats the unfinished call and delivers all
// later changes: the stored cursor never passes an unfinished call.
func TestDurableHandlerKilledInACall(t *testing.T) {
	for _, test := range []struct {
		name string
		// then makes changes after a/1 was delivered. If nil, the handler is registered when a/1 to a/3 are stored.
		then func(srv TestServer)
		at   string   // at is the key of the object whose call blocks
		want []string // want has the expected calls in the next process
	}{
		{"a change", func(srv TestServer) { srv.Write("a/2", "x") }, "a/2", []string{"+ a/2"}},
		{"a delete", func(srv TestServer) { srv.Delete("a/1") }, "a/1", []string{"- a/1"}},
		{"the second of three changes", func(srv TestServer) {
			for _, key := range []string{"a/1", "a/2", "a/3"} {
				srv.Write(key, "y")
			}
		}, "a/2", []string{"+ a/2", "+ a/3"}},
		{"the first object of the first replay", nil, "a/1", []string{"+ a/1", "+ a/2", "+ a/3", "replayed"}},
		{"an object of the first replay", nil, "a/2", []string{"+ a/2", "+ a/3", "replayed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, path := NewTestServer(), filepath.Join(t.TempDir(), "larder.db")
				srv.Write("a/1", "x")
				if test.then == nil {
					srv.Write("a/2", "x")
					srv.Write("a/3", "x")
					runMirror(t, srv, path, &mirror{unregistered: true}).stop()
				}
				armed, calls := test.then == nil, 0
				m := runMirror(t, srv, path, &mirror{at: func(ctx context.Context, key string) error {
					if !armed || key != test.at {
						return nil
					}
					calls++
					<-ctx.Done()
					return ctx.Err()
				}})
				if test.then != nil {
					armed = true
					test.then(srv)
					waitMirrorIdle()
				}
				if calls != 1 {
					t.Fatalf("%d calls do not return; the handler received %q", calls, m.calls)
				}
				killed := m.asKilled(t)
				m.stop()
				next := runMirror(t, srv, killed, &mirror{})
				if !slices.Equal(next.calls, test.want) {
					t.Errorf("killed in the call for %s, after %q: the next process received %q, want %q",
						test.at, m.calls, next.calls, test.want)
				}
				next.stop()
			})
		})
	}
}

// TestDurableHandlerFailsOverARestart checks that the next process repeats a failed call, although later changes of
// other keys have been acknowledged.
func TestDurableHandlerFailsOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewTestServer()
		srv.Write("a/1", "x")
		fails := ""
		refuse := func(_ context.Context, key string) error {
			if key == fails {
				return errors.New("from the test")
			}
			return nil
		}
		m := runMirror(t, srv, filepath.Join(t.TempDir(), "larder.db"), &mirror{at: refuse})
		fails = "a/2"
		srv.Write("a/2", "x")
		srv.Write("a/3", "x")
		waitMirrorIdle()
		if last := m.calls[len(m.calls)-1]; last != "+ a/3" {
			t.Fatalf("the handler received %q", m.calls)
		}
		killed := m.asKilled(t)
		m.stop()
		next := runMirror(t, srv, killed, &mirror{})
		if want := []string{"+ a/2"}; !slices.Equal(next.calls, want) {
			t.Errorf("the next process received %q, want %q", next.calls, want)
		}
		next.stop()
	})
}
