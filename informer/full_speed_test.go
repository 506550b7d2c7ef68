package informer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// memory is what a process had at a moment, or at most, in bytes.
type memory struct {
	pending int   // in the store, for the next commit
	anon    int64 // RssAnon; 0 where the system does not tell
}

func (m memory) String() string {
	return fmt.Sprintf("RssAnon %.0f MB, %.1f MB pending", float64(m.anon)/1e6, float64(m.pending)/1e6)
}

func (m *memory) raise(now memory) {
	m.pending, m.anon = max(m.pending, now.pending), max(m.anon, now.anon)
}

func memoryNow(s *store.Store) memory {
	m := memory{pending: s.Pending()}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m
	}
	_, rest, _ := strings.Cut(string(status), "\nRssAnon:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
		if err == nil {
			m.anon = kilobytes << 10
		}
	}
	return m
}

// fullSpeed is a handler that reads, and watches the memory of the process while it is told of updates.
type fullSpeed struct {
	informer    *Informer
	store       *store.Store
	early, late memory // the most in the first twelfth of the updates, and after that
	updates     int    // to come
	calls       int
	err         error
}

func (h *fullSpeed) OnAdd(any, bool) {}
func (h *fullSpeed) OnDelete(any)    {}
func (h *fullSpeed) OnUpdate(_, obj any) {
	h.calls++
	if h.calls%10 == 0 {
		_, found, err := h.informer.GetIndexer().GetByKey("a/" + obj.(*corev1.Pod).Name)
		if !found || err != nil {
			h.err = fmt.Errorf("it reads what it was told of: %v, %w", found, err)
		}
	}
	if h.calls%500 == 0 {
		peak := &h.late
		if h.calls < h.updates/12 {
			peak = &h.early
		}
		peak.raise(memoryNow(h.store))
	}
}

// TestMemoryAtFullSpeed: with residency None, updates come as fast as they are taken in. What is pending is bounded:
// the writer waits for the disk. It was everything that changed while a commit was being written, so commits and
// memory grew with the collection. (Issue 16, A20.)
// LARDER_SOAK=1 sends 5 million updates of 20,000 objects. RssAnon is at most 1.3 times then what it was at
// first. That needs a process of its own, so the short form only reports it.
func TestMemoryAtFullSpeed(t *testing.T) {
	soak := os.Getenv("LARDER_SOAK") != ""
	s := &torrent{keys: 10_000, updates: 40_000, body: 2000}
	if soak {
		s = &torrent{keys: 20_000, updates: 5_000_000, body: 2000}
	}
	bubble(t, func(t *testing.T) {
		st, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{Logger: &discard})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		i, err := New(s, &corev1.Pod{}, Options{
			Store: st, Identity: podsIdentity, Logger: &discard, Residency: store.None,
			Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		})
		if err != nil {
			t.Fatal(err)
		}
		h := &fullSpeed{informer: i, store: st, updates: s.updates}
		if _, err := i.AddEventHandler(h); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { i.RunWithContext(ctx) })
		synctest.Wait()
		if rv := i.LastSyncResourceVersion(); rv != strconv.Itoa(firstVersion+s.updates) {
			t.Errorf("the stream stopped at %s", rv)
		}
		cancel()
		wg.Wait()
		if h.err != nil {
			t.Error(h.err)
		}
		t.Logf("%d updates, %d calls; at first %v; then %v", s.updates, h.calls, h.early, h.late)
		// Twice CommitBytes, and a batch of 1,024 objects.
		if bound := 2*4<<20 + 1024*(s.body+1000); max(h.early.pending, h.late.pending) > bound {
			t.Errorf("more than %d bytes were pending: %v, %v", bound, h.early, h.late)
		}
		if soak && 10*h.late.anon > 13*h.early.anon {
			t.Errorf("memory grows: %v at first, %v then", h.early, h.late)
		}
	})
}
