package informer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

// sharer is one of several informers on one collection, with a handler.
type sharer struct {
	t    *testing.T
	i    *informer.Informer
	h    *recorder
	end  context.CancelFunc
	done chan struct{}
}

// another returns a second informer on the collection of r.i.
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

// TestTwoInformersOneStore checks that a second informer on a collection attaches to the first: one list and one watch
// serve both, each has its handlers, and the collection is closed when both have ended. Issue 38.
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
		third := r.another() // of one whose first informer has ended
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

// open2 makes the next informer on the open store.
func (r *rig) open2() {
	r.t.Helper()
	i, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(r.i))
	if err != nil {
		r.t.Fatal(err)
	}
	r.i = i
}

// TestAttachInEveryOrder starts and ends two informers on one collection in every order. Each handler gets every object
// and change from its start on, once, and nothing after its end.
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

// TestAttachWhileEnding checks that an informer that is made while the last one of a collection ends begins anew, and
// that one is not lost if another takes the collection over first.
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

// TestAttachRefused checks that options which informers on one collection share must be equal, and that the error names
// the option.
func TestAttachRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Indexers = cache.Indexers{"label": func(any) ([]string, error) { return nil, nil }}
		r.o.TransformVersion, r.o.Residency = "1", store.All
		r.start()
		for want, change := range map[string]func(o *informer.Options){
			"Options.TransformVersion is \"1\" there, and \"2\" here": func(o *informer.Options) { o.TransformVersion = "2" },
			"Options.Residency":   func(o *informer.Options) { o.Residency = store.None },
			"Options.Compression": func(o *informer.Options) { o.Compression = store.Zstd },
			"Options.History":     func(o *informer.Options) { o.History = 1 << 20 },
			"Options.SyncPolicy":  func(o *informer.Options) { o.SyncPolicy = informer.Disk },
			"Options.AuditEvery":  func(o *informer.Options) { o.AuditEvery = time.Hour },
			"Options.Indexers: add indexes to pods.v1: indexer conflict: map[label:{}]": func(o *informer.Options) {
				o.Indexers = cache.Indexers{"label": func(any) ([]string, error) { return nil, nil }}
			},
		} {
			o := informer.OptionsOf(r.i)
			o.Indexers = nil
			change(&o)
			_, err := informer.New(r.srv, &corev1.Pod{}, o)
			if !errors.Is(err, store.ErrCollectionOpen) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		o := informer.OptionsOf(r.i)
		o.Indexers, o.Codec = nil, nil
		_, err := informer.New(r.srv, &corev1.ConfigMap{}, o)
		if !errors.Is(err, store.ErrCollectionOpen) || !strings.Contains(fmt.Sprint(err), "the type of the example object") {
			t.Error(err)
		}
		if s := r.i.Status(); s.Err != nil || s.Source != informer.Live {
			t.Errorf("the first: %+v", s)
		}
		r.close()
	})
}

// TestAttachTransform checks that informers on one collection have the same transform, or none of them has one.
func TestAttachTransform(t *testing.T) {
	strip := func(obj any) (any, error) { return obj, nil }
	for _, tt := range []struct {
		version       string
		first, second cache.TransformFunc
		refused       string
	}{
		{"1", strip, strip, ""},
		{"1", nil, nil, ""},
		{"1", strip, nil, "for one of the two only"},
		{"1", nil, strip, "for one of the two only"},
		{informer.Unversioned, strip, strip, "give the function a version"},
		{informer.Unversioned, declared, nil, "for one of the two only"},
		{informer.Unversioned, declared, declared, ""},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.o.TransformVersion = tt.version
			r.srv.write("a/1", "x")
			first := shares(t, r.open())
			second := r.another()
			for i, fn := range map[*informer.Informer]cache.TransformFunc{first.i: tt.first, second.i: tt.second} {
				if fn == nil {
					continue
				}
				if err := i.SetTransform(fn); err != nil {
					t.Fatal(err)
				}
			}
			first.run()
			synctest.Wait()
			second.run()
			synctest.Wait()
			err := second.i.Status().Err
			if tt.refused == "" && err != nil || !strings.Contains(fmt.Sprint(err), tt.refused) {
				t.Errorf("%s: %v, want %q", tt.version, err, tt.refused)
			}
			if second.i.HasSynced() != (err == nil) || len(second.h.take()) > 0 != (err == nil) || len(first.h.take()) != 1 {
				t.Errorf("%s: synced %t, %v", tt.version, second.i.HasSynced(), err)
			}
			if first.i.Status().Err != nil {
				t.Error(first.i.Status().Err)
			}
			second.stop()
			first.stop()
			r.close()
		})
	}
}

func declared(obj any) (any, error) { return obj, nil }

// TestAttachIndexers checks that index functions of all informers are in the shared collection: the same function under
// one name is one index, and another function is refused in client-go's words.
func TestAttachIndexers(t *testing.T) {
	byLabel := func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["value"]}, nil }
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "label": byLabel}
		r.o.IndexVersions = map[string]string{"label": "1"}
		r.srv.write("a/1", "x")
		r.start()
		o := informer.OptionsOf(r.i)
		o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "label": byLabel, "second": byLabel}
		i, err := informer.New(r.srv, &corev1.Pod{}, o)
		if err != nil {
			t.Fatal(err)
		}
		second := shares(t, i)
		second.run()
		synctest.Wait()
		for name, value := range map[string]string{cache.NamespaceIndex: "a", "label": "x", "second": "x"} {
			for _, i := range []*informer.Informer{r.i, i} {
				if got, err := i.GetIndexer().IndexKeys(name, value); err != nil || !slices.Equal(got, []string{"a/1"}) {
					t.Errorf("index %s: %q, %v", name, got, err)
				}
			}
		}
		for what, err := range map[string]error{
			"twice":           i.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
			"of the other":    r.i.AddIndexers(cache.Indexers{"second": byLabel}),
			"one of the two":  i.AddIndexers(cache.Indexers{"second": byLabel, "third": byLabel}),
			"another version": unversioned(r, o),
		} {
			if err == nil || !strings.Contains(err.Error(), "indexer conflict") {
				t.Errorf("%s: %v", what, err)
			}
		}
		second.stop()
		r.close()
	})
}

// unversioned returns the error of New without versions of the index functions.
func unversioned(r *rig, o informer.Options) error {
	o.IndexVersions = nil
	_, err := informer.New(r.srv, &corev1.Pod{}, o)
	return err
}

// TestAttachErrors checks that the watch error handler and the status of each informer have the errors of the run that
// they share.
func TestAttachErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.setFail(refuse)
		first := shares(t, r.open())
		second := r.another()
		var mu sync.Mutex
		heard := map[string]int{}
		took := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			defer clear(heard)
			return maps.Clone(heard)
		}
		for name, i := range map[string]*informer.Informer{"first": first.i, "second": second.i} {
			if err := i.SetWatchErrorHandler(func(*cache.Reflector, error) {
				mu.Lock()
				defer mu.Unlock()
				heard[name]++
			}); err != nil {
				t.Fatal(err)
			}
		}
		first.run()
		second.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := took(); got["first"] == 0 || got["second"] == 0 {
			t.Errorf("errors heard: %v", got)
		}
		if first.i.Status().Err == nil || second.i.Status().Err == nil {
			t.Error("no error in the status")
		}
		first.stop()
		took()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := took(); got["first"] != 0 || got["second"] == 0 {
			t.Errorf("errors heard after the end of the first: %v", got)
		}
		second.stop()
		r.close()
	})
}

// TestAttachResync checks that each informer has its resync period.
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

// TestAttachDurable checks that the names of durable handlers are those of the collection, whichever informer has them,
// and that they end with their informer.
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

// TestAttachOtherCluster checks that an informer whose own client is for another cluster than that of the run gets
// nothing of it, and says so; one whose cluster cannot be read at first waits for that.
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

// ledger checks that the calls of a handler are those of a stream: it keeps the state that they tell.
type ledger struct {
	t     *testing.T
	mu    sync.Mutex
	state map[string]string // guarded by mu
	over  bool              // guarded by mu; the run has returned
}

func (f *ledger) call(obj any, check func(key string) bool, after func(key, now string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = u.Obj
	}
	p := obj.(*corev1.Pod)
	key := p.Namespace + "/" + p.Name
	if f.over || !check(key) {
		f.t.Errorf("call with %s at state %q, over %t", describe(p), f.state[key], f.over)
	}
	after(key, describe(p))
}

func (f *ledger) OnAdd(obj any, _ bool) {
	f.call(obj, func(key string) bool { return f.state[key] == "" }, func(key, now string) { f.state[key] = now })
}

func (f *ledger) OnUpdate(old, obj any) {
	was := describe(old)
	f.call(obj, func(key string) bool { return f.state[key] == was }, func(key, now string) { f.state[key] = now })
}

func (f *ledger) OnDelete(obj any) {
	f.call(obj, func(key string) bool { return f.state[key] != "" }, func(key, _ string) { delete(f.state, key) })
}

func (f *ledger) values() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Values(f.state))
}

// TestAttachAtRandom makes, runs and ends informers on one collection at random while objects change. No handler misses
// a change or gets one twice, none is called after its run, and the server sees one watch at a time.
func TestAttachAtRandom(t *testing.T) {
	for seed := range uint64(10) {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.open()
			m := &crowd{r: r, random: rand.New(rand.NewPCG(seed, 0))}
			var workers sync.WaitGroup
			stop := make(chan struct{})
			for n := range 6 {
				random := rand.New(rand.NewPCG(seed, uint64(n)+1))
				workers.Go(func() {
					for range 15 {
						i, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(r.i))
						if err != nil {
							t.Error(err)
							return
						}
						f := &ledger{t: t, state: map[string]string{}}
						if _, err := i.AddEventHandler(f); err != nil {
							t.Error(err)
						}
						if random.IntN(5) == 0 {
							time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
							if err := i.Close(); err != nil {
								t.Error(err)
							}
							continue
						}
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(5000))*time.Millisecond)
						i.RunWithContext(ctx)
						cancel()
						f.mu.Lock()
						f.over = true
						f.mu.Unlock()
					}
				})
			}
			go func() {
				defer close(stop)
				workers.Wait()
			}()
			last := &ledger{t: t, state: map[string]string{}}
			if _, err := r.i.AddEventHandler(last); err != nil {
				t.Fatal(err)
			}
			if seed%2 == 0 {
				r.run()
			}
			for n := 0; ; n++ {
				r.srv.mu.Lock()
				watches := len(r.srv.watches)
				r.srv.mu.Unlock()
				if watches > 1 {
					t.Errorf("%d watches", watches)
				}
				key := fmt.Sprintf("a/%d", m.random.IntN(12))
				if m.random.IntN(4) == 0 {
					r.srv.delete(key)
				} else {
					r.srv.write(key, fmt.Sprint(n))
				}
				time.Sleep(time.Duration(m.random.IntN(100)) * time.Millisecond)
				select {
				case <-stop:
				default:
					continue
				}
				break
			}
			if seed%2 == 1 {
				r.run()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			equal(t, "state of the last handler", last.values(), r.srv.state())
			equal(t, "stored", r.stored(), r.srv.state())
			if lists, _ := r.srv.requests(); lists > 1 {
				t.Errorf("%d lists", lists)
			}
			r.close()
		})
	}
}
