package informer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

type sharer struct {
	t    *testing.T
	i    *informer.Informer
	h    *recorder
	end  context.CancelFunc
	done chan struct{}
}

// another returns a further informer on the rig's collection.
func (r *rig) another() *sharer {
	r.t.Helper()
	o := informer.OptionsOf(r.i)
	o.Indexers = nil
	i, err := informer.New(r.srv, &corev1.Pod{}, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return shares(r.t, i)
}

func shares(t *testing.T, i *informer.Informer) *sharer {
	t.Helper()
	s := &sharer{t: t, i: i, h: &recorder{}, end: func() {}, done: make(chan struct{})}
	if _, err := i.AddEventHandler(s.h); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sharer) run() {
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	go func() {
		defer close(s.done)
		s.i.RunWithContext(ctx)
	}()
}

func (s *sharer) stop() {
	s.end()
	<-s.done
}

// TestTwoInformersOneStore checks that one list and one watch serve two informers on one collection. Issue 38.
func TestTwoInformersOneStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		h := &recorder{}
		first := r.start(h)
		second := r.another()
		equal(t, "before the start", second.h.take(), nil)
		if second.i.HasSynced() || second.i.LastSyncResourceVersion() != "" {
			t.Error("an informer that does not run has synced")
		}
		second.run()
		synctest.Wait()
		r.srv.write("a/1", "y")
		r.srv.delete("a/1")
		synctest.Wait()
		later := []string{"update a/1@101=x to a/1@102=y", "delete a/1@103=y"}
		equal(t, "first", h.take(), append([]string{"add a/1@101=x initial"}, later...))
		equal(t, "second", second.h.take(), append([]string{"add a/1@101=x initial"}, later...))
		if s := second.i.Status(); !s.Synced || s.Source != informer.Live || len(s.Handlers) != 2 {
			t.Errorf("status of the second: %+v", s)
		}
		r.stop()
		if s := first.Status(); s.Source != informer.FromDisk || !first.IsStopped() {
			t.Errorf("source of the first after its end: %s", s.Source)
		}
		r.srv.write("a/2", "z")
		synctest.Wait()
		equal(t, "first, after its end", h.take(), nil)
		equal(t, "second, alone", second.h.take(), []string{"add a/2@104=z"})
		third := r.another() // the first informer has ended, so this one attaches to the second
		third.run()
		synctest.Wait()
		equal(t, "third", third.h.take(), []string{"add a/2@104=z initial"})
		second.stop()
		third.stop()
		if lists, watches := r.srv.requests(); lists != 1 || len(watches) != 1 {
			t.Errorf("%d lists, watches from %q", lists, watches)
		}
		r.open2()
		equal(t, "what the next one reads", r.stored(), r.srv.state())
		h = &recorder{}
		r.run(h)
		equal(t, "its handlers", h.take(), []string{"add a/2@104=z initial"})
		r.close()
	})
}

func (r *rig) open2() {
	r.t.Helper()
	i, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(r.i))
	if err != nil {
		r.t.Fatal(err)
	}
	r.i = i
}

// TestAttachInEveryOrder checks that each handler gets every object and change once from its start on, and nothing
// after its end.
func TestAttachInEveryOrder(t *testing.T) {
	for name, order := range map[string]string{
		"both made first":               "AB ab xy",
		"both made first, second ends":  "AB ab yx",
		"second starts first":           "AB ba xy",
		"second starts and ends first":  "AB b y a x",
		"second never starts":           "AB a x Y",
		"first never starts":            "AB b y X",
		"first closed before the start": "AB X b y",
		"second closed while other run": "AB a Y x",
		"made later":                    "A a B b x y",
		"made and closed later":         "A a B Y x",
		"one after the other":           "A a B x b y",
		"neither starts":                "AB X Y",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				var all [2]*sharer
				running := [2]bool{}
				for n, step := range strings.ReplaceAll(order, " ", "") {
					at := int(strings.ToLower(string(step))[0]-'a') % 2
					if step == 'x' || step == 'X' {
						at = 0
					} else if step == 'y' || step == 'Y' {
						at = 1
					}
					s := all[at]
					switch step {
					case 'A':
						all[0] = shares(t, r.open())
					case 'B':
						all[1] = r.another()
					case 'a', 'b':
						s.run()
						running[at] = true
						synctest.Wait()
						if got := s.h.take(); len(got) != len(r.srv.state()) || !s.i.HasSynced() {
							t.Errorf("%c, at its start: %q, synced %t", step, got, s.i.HasSynced())
						}
					case 'x', 'y':
						s.stop()
						running[at] = false
					case 'X', 'Y':
						if err := s.i.Close(); err != nil {
							t.Error(err)
						}
					}
					key := fmt.Sprintf("b/%d", n)
					p := r.srv.write(key, "new")
					synctest.Wait()
					for at, s := range all {
						var want []string
						if running[at] {
							want = []string{"add " + describe(p)}
						}
						if s != nil {
							equal(t, fmt.Sprintf("after %c, informer %d", step, at), s.h.take(), want)
						}
					}
				}
				r.open2()
				r.run()
				equal(t, "the next one", r.stored(), r.srv.state())
				r.close()
			})
		})
	}
}

// TestAttachWhileEnding checks an informer that is made while the collection's last informer ends: it starts a new run,
// even if another informer opens the collection first.
func TestAttachWhileEnding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		last := shares(t, r.open())
		last.run()
		synctest.Wait()
		for n := range 20 {
			last.end()
			var made sync.WaitGroup
			next := make([]*informer.Informer, 3)
			for n := range next {
				made.Go(func() {
					i, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(r.i))
					if err != nil {
						t.Error(err)
					}
					next[n] = i
				})
			}
			made.Wait()
			<-last.done
			for _, i := range next[:2] {
				s := shares(t, i)
				s.run()
				synctest.Wait()
				if got := s.h.take(); len(got) != n+1 {
					t.Errorf("the handler got %q", got)
				}
				defer s.stop()
				s.end()
			}
			last = shares(t, next[2])
			last.run()
			synctest.Wait()
			r.srv.write(fmt.Sprintf("b/%d", n), "y")
			synctest.Wait()
		}
		r.i = last.i
		equal(t, "stored", r.stored(), r.srv.state())
		last.stop()
		if lists, _ := r.srv.requests(); lists != 1 {
			t.Errorf("%d lists", lists)
		}
		r.close()
	})
}

func TestAttachErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.setFail(refuse)
		first := shares(t, r.open())
		second := r.another()
		var mu sync.Mutex
		received := map[string]int{}
		took := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			defer clear(received)
			return maps.Clone(received)
		}
		for name, i := range map[string]*informer.Informer{"first": first.i, "second": second.i} {
			if err := i.SetWatchErrorHandler(func(*cache.Reflector, error) {
				mu.Lock()
				defer mu.Unlock()
				received[name]++
			}); err != nil {
				t.Fatal(err)
			}
		}
		first.run()
		second.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := took(); got["first"] == 0 || got["second"] == 0 {
			t.Errorf("errors received: %v", got)
		}
		if first.i.Status().Err == nil || second.i.Status().Err == nil {
			t.Error("no error in the status")
		}
		first.stop()
		took()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := took(); got["first"] != 0 || got["second"] == 0 {
			t.Errorf("errors received after the end of the first: %v", got)
		}
		second.stop()
		r.close()
	})
}

func TestAttachResync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.o.ResyncPeriod = time.Hour
		first := shares(t, r.open())
		r.o = informer.OptionsOf(r.i)
		r.o.ResyncPeriod = time.Minute
		i, err := informer.New(r.srv, &corev1.Pod{}, r.o)
		if err != nil {
			t.Fatal(err)
		}
		second := shares(t, i)
		first.run()
		second.run()
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if got := len(second.h.take()) - 1; got != 10 {
			t.Errorf("%d resyncs of the second", got)
		}
		equal(t, "first", first.h.take(), []string{"add a/1@101=x initial"})
		first.stop()
		second.stop()
		r.close()
	})
}

// TestAttachDurable checks that names of durable handlers are unique in a shared collection.
func TestAttachDurable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		first := shares(t, r.open())
		second := r.another()
		var mu sync.Mutex
		calls := map[string][]string{}
		handler := func(name string) durable.Handler {
			return durable.Handler{OnChange: func(_ context.Context, c consumer.Change) error {
				mu.Lock()
				defer mu.Unlock()
				calls[name] = append(calls[name], c.Key)
				return nil
			}}
		}
		take := func(name string) []string {
			mu.Lock()
			defer mu.Unlock()
			defer delete(calls, name)
			return calls[name]
		}
		for name, s := range map[string]*sharer{"one": first, "two": second} {
			if _, err := s.i.Durable().Add(name, handler(name)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := second.i.Durable().Add("one", handler("one")); !errors.Is(err, consumer.ErrOpen) {
			t.Error(err)
		}
		first.run()
		second.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "one", take("one"), []string{"a/1"})
		equal(t, "two", take("two"), []string{"a/1"})
		first.stop()
		r.srv.write("a/2", "y")
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "one, after the end of its informer", take("one"), nil)
		equal(t, "two", take("two"), []string{"a/2"})
		if _, err := second.i.Durable().Add("one", handler("one")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		equal(t, "one, with the other informer", take("one"), []string{"a/2"})
		second.stop()
		r.close()
	})
}

// TestAttachOtherCluster checks that an informer gets nothing, and reports why, if its client reaches another cluster
// than the client that fills the shared collection.
func TestAttachOtherCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		id      string
		err     error
		refused bool
	}{
		"the same":          {id: "one"},
		"another":           {id: "two", refused: true},
		"cannot be read":    {err: errors.New("from the test")},
		"unknown":           {},
		"started by itself": {id: "two", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				r.o.ClusterID = func(context.Context) (string, error) { return "one", nil }
				first := shares(t, r.open())
				var mu sync.Mutex
				id, failure := tt.id, tt.err
				o := informer.OptionsOf(r.i)
				o.ClusterID = func(context.Context) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					return id, failure
				}
				i, err := informer.New(r.srv, &corev1.Pod{}, o)
				if err != nil {
					t.Fatal(err)
				}
				second := shares(t, i)
				second.run()
				if name != "started by itself" {
					first.run()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if tt.err != nil {
					equal(t, "the cluster is unknown", second.h.take(), nil)
					mu.Lock()
					id, failure = "one", nil
					mu.Unlock()
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				want := []string{"add a/1@101=x initial"}
				if tt.refused {
					want = nil
				}
				equal(t, "second", second.h.take(), want)
				if err := i.Status().Err; errors.Is(err, store.ErrOtherCluster) != tt.refused || i.HasSynced() == tt.refused {
					t.Errorf("synced %t, %v", i.HasSynced(), err)
				}
				if err := first.i.Status().Err; err != nil {
					t.Error(err)
				}
				second.stop()
				if name == "started by itself" {
					first.run()
					synctest.Wait()
				}
				equal(t, "first", first.h.take(), []string{"add a/1@101=x initial"})
				first.stop()
				r.close()
			})
		})
	}
}
