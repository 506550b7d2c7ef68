package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// hotBetween is the minimum number of object changes between two saves of a snapshot.
const hotBetween = 30

// TestHotSnapshot saves snapshots of a store while its informer handles 1,000 changes a second. Each snapshot must
// equal the server's state at its resourceVersion, which a separate watch has noted. The test prints the delays of
// readers and of the writer, during saves and without.
//
// kube-apiserver reaches the rate that the machine permits, with Leases as nodes renew them. The fake API server
// reaches a higher rate.
func TestHotSnapshot(t *testing.T) {
	t.Run("a real server", func(t *testing.T) {
		c := newCluster(t, shared)
		newHotLoad(t, c.Config(t.Name()), leasesOf(c.ns)).snapshots(t)
	})
	t.Run("the embedded server", func(t *testing.T) {
		server := fakeapi.New(fakeapi.Options{})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
		newHotLoad(t, server.Config(), configMapsOf("hot")).snapshots(t)
	})
}

// snapshots saves several snapshots while the objects change, and compares each snapshot with the server's state.
func (l *hotLoad) snapshots(t *testing.T) {
	saves := 6
	if soak {
		saves = 100
	}
	f := newFile(t)
	arrivals := &arrivals{at: map[string]time.Time{}}
	src := arrivals.note(l.source)
	s := f.start(t, src, func(o *informer.Options) { o.Residency = store.All })
	s.sync(t)
	truth := watchTruthOf(t, cache.ToListerWatcherWithContext(l.source.lw))
	var saving atomic.Bool
	handler := &latencies{arrivals: arrivals, saving: &saving}
	if _, err := s.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	stopWriting := l.start(t)
	reads, stopReading := readEvery(t, s, &saving, l.source.identity.Namespace+"/"+hotName(0))

	var paths []string
	var took delays
	for n := range saves {
		time.Sleep(300 * time.Millisecond) // Handlers are also measured between two snapshots.
		handler.more(t, hotBetween)
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.larder", n))
		begun := time.Now()
		saving.Store(true)
		_, err := snapshot.SaveStore(t.Context(), f.Store, path, snapshot.SaveOptions{})
		saving.Store(false)
		if err != nil {
			t.Fatal(err)
		}
		took, paths = append(took, time.Since(begun)), append(paths, path)
	}
	t.Log(stopWriting())
	stopReading()
	s.stop(t)

	versions := map[string]bool{}
	for n, path := range paths {
		got := readSnapshot(t, path, src)
		truth.mustEqual(t, got, fmt.Sprintf("save %d", n+1))
		versions[got.ResourceVersion] = true
	}
	if len(versions) < saves {
		t.Errorf("%d snapshots are of %d moments: the test shows little", saves, len(versions))
	}
	t.Logf("%d snapshots of %d %s, exact at %d moments among %d changes: %s",
		saves, hotObjects, l.source.identity.Resource, len(versions), truth.events(), took)
	t.Logf("the server closes watches that do not keep up: the informer has watched %d times", arrivals.watches.Load())
	t.Logf("a Get: %s", reads)
	t.Logf("from an event's arrival to the handler: %s", handler)
}

func readSnapshot(t *testing.T, path string, src source, ids ...age.Identity) stored {
	t.Helper()
	f, err := snapshot.Open(path, snapshot.OpenOptions{Identities: ids})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := f.Manifest().Collections
	n := slices.IndexFunc(all, func(c snapshot.Collection) bool { return c.Identity == src.identity })
	if n < 0 {
		t.Fatalf("%s has %+v, want %+v", path, all, src.identity)
	}
	codec, err := codec.For(src.example)
	if err != nil {
		t.Fatal(err)
	}
	out := stored{Info: entry.Info{ResourceVersion: all[n].ResourceVersion, Complete: all[n].Complete}, objects: objects{}}
	err = f.Records(t.Context(), src.identity, func(r entry.Entry) error {
		obj, err := codec.Decode(r.Payload)
		if err != nil {
			return err
		}
		if rvOf(obj) != r.ResourceVersion {
			return fmt.Errorf("%s is of resourceVersion %s, and its record says %s", r.Key, rvOf(obj), r.ResourceVersion)
		}
		out.objects.put(t, obj)
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// pauses has the longest delays of a repeated operation and their number, during saves of a snapshot and without.
type pauses struct {
	mu                  sync.Mutex // mu guards the fields below
	with, without       time.Duration
	countWith, countOut int
}

func (p *pauses) add(saving bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if saving {
		p.countWith++
		p.with = max(p.with, took)
		return
	}
	p.countOut++
	p.without = max(p.without, took)
}

func (p *pauses) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("longest of %d during a save %s, of %d others %s",
		p.countWith, p.with.Round(10*time.Microsecond), p.countOut, p.without.Round(10*time.Microsecond))
}

// readEvery reads an object from the informer every millisecond. It measures the delay from the scheduled time.
func readEvery(t *testing.T, s *subject, saving *atomic.Bool, key string) (p *pauses, stop func()) {
	t.Helper()
	p = &pauses{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			during, begun := saving.Load(), time.Now()
			if _, found, err := s.GetStore().GetByKey(key); err != nil || !found {
				t.Errorf("%s: found %t, %v", key, found, err)
				return
			}
			p.add(during || saving.Load(), time.Since(begun))
			<-tick.C
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return p, stop
}

type arrivals struct {
	mu sync.Mutex
	at map[string]time.Time

	watches atomic.Int64 // number of opened watches
}

func (a *arrivals) note(src source) source {
	inner := src.lw
	src.lw = &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return cache.ToListerWatcherWithContext(inner).ListWithContext(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := cache.ToListerWatcherWithContext(inner).WatchWithContext(ctx, o)
			if err != nil {
				return nil, err
			}
			a.watches.Add(1)
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.at[rvOf(e.Object)] = time.Now()
				return e, true
			}), nil
		},
	}
	return src
}

// latencies is a handler that measures the time from an event's arrival to the handler call.
type latencies struct {
	pauses
	arrivals *arrivals
	saving   *atomic.Bool
}

func (h *latencies) OnAdd(any, bool) {}

func (h *latencies) OnUpdate(_, obj any) {
	h.arrivals.mu.Lock()
	at, found := h.arrivals.at[rvOf(obj)]
	h.arrivals.mu.Unlock()
	if found {
		h.add(h.saving.Load(), time.Since(at))
	}
}

func (h *latencies) more(t *testing.T, changes int) {
	t.Helper()
	before := h.count()
	eventually(t, "changes", func() string {
		if n := h.count() - before; n < changes {
			return fmt.Sprintf("%d of %d were told", n, changes)
		}
		return ""
	})
}

func (h *latencies) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.countWith + h.countOut
}

func (h *latencies) OnDelete(any) {}
