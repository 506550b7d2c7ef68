package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/resident"
)

// Tests of whole collections that look at what cannot be seen from outside: an order of steps that no gate reaches.

// podAt is the i-th pod.
func podAt(i int, rv string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprintf("namespace-%d", i%5), Name: fmt.Sprintf("pod-%04d", i), ResourceVersion: rv,
	}}
}

func rvOf(obj runtime.Object) string {
	if obj == nil {
		return "none"
	}
	return obj.(*corev1.Pod).ResourceVersion
}

// openInside opens a store and its collection of pods.
func openInside(t *testing.T, r Residency) (*Store, *Collection) {
	t.Helper()
	s, err := Open(t.TempDir()+"/store", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	return s, mustOpenInside(t, s, id, r)
}

func mustOpenInside(t *testing.T, s *Store, id entry.Identity, r Residency) *Collection {
	t.Helper()
	c, err := s.Collection(t.Context(), id, CollectionOptions{Residency: r, Codec: mustCodec(t, &corev1.Pod{})})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// late is the identity of a collection that comes late.
func late() entry.Identity {
	return entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: "late"}
}

// wantWritten verifies that c takes in an object, and that the file is sound.
func wantWritten(t *testing.T, s *Store, c *Collection) {
	t.Helper()
	if _, err := c.Apply(t.Context(), Batch{Ops: []Op{{Object: podAt(1, "7")}}, ResourceVersion: "7"}); err != nil {
		t.Error(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 || r.Objects != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Nobody reads by key while some of the keys of a batch, or of a list, have been changed.
func TestNoKeyedReadAmidABatch(t *testing.T) {
	_, c := openInside(t, All)
	if err := c.WaitResident(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := NewMemory(c.id, CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		to Interface
		ix *Indexer
		in *resident.Table
		mu *sync.RWMutex
	}{
		"All":    {c, c.Indexer(), c.resident.Load().table, &c.resident.Load().mu},
		"Memory": {m, m.Indexer(), m.table, &m.mu},
	} {
		t.Run(name, func(t *testing.T) {
			apply := func(ops ...Op) {
				t.Helper()
				if _, err := test.to.Apply(t.Context(), Batch{Ops: ops}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 10 {
				apply(Op{Object: podAt(i, strconv.Itoa(1000+i))})
			}
			test.in.ByKey.Settle()
			asked := 0
			test.in.ByKey.Between = func() { // when the new key is looked for, while the lock is held
				if rvOf(test.in.Get("namespace-0/pod-0000")) != "2001" {
					return // the batch is still being prepared
				}
				asked++
				locked := !test.mu.TryRLock()
				if !locked {
					test.mu.RUnlock()
				}
				if test.ix.hot.Load() == nil && locked {
					return
				}
				t.Errorf("who has read pod 0 at 2001 reads pod 1 at %s", rvOf(test.in.Get("namespace-1/pod-0001")))
			}
			apply(Op{Object: podAt(0, "2001")}, Op{Object: podAt(11, "2002")}, Op{Object: podAt(1, "2003")})
			test.in.ByKey.Between = nil
			if asked == 0 || test.ix.hot.Load() == nil {
				t.Errorf("asked %d times; reads by key are fast again: %t", asked, test.ix.hot.Load() != nil)
			}
			if obj, _, _ := test.ix.GetByKey("namespace-1/pod-0001"); rvOf(obj.(*corev1.Pod)) != "2003" {
				t.Errorf("pod 1 at %s", rvOf(obj.(*corev1.Pod)))
			}
		})
	}
}

// A rebuild may come to a collection as soon as it is open, and has to find what it keeps in memory.
func TestBoundedIsThereOnceOpen(t *testing.T) {
	s, _ := openInside(t, None)
	c, err := s.openAndEnlist(t.Context(), late().ID(), late(),
		CollectionOptions{Residency: Bounded(64 << 20), Codec: mustCodec(t, &corev1.Pod{})})
	if err != nil {
		t.Fatal(err)
	}
	if c.bounded == nil {
		t.Error("it keeps nothing in memory yet")
	}
	c.workers.stop()
}

// TestOpenWhileRebuilding: a collection of which Rebuild does not know yet is
// opened once more, since the new file need not have it.
func TestOpenWhileRebuilding(t *testing.T) {
	s, _ := openInside(t, None)
	before := s.rebuildCount()
	id := late()
	c, err := openCollection(t.Context(), s, id.ID(), id,
		CollectionOptions{Residency: None, Codec: mustCodec(t, &corev1.Pod{})})
	if err != nil {
		t.Fatal(err)
	}
	s.fail(s.handle, ErrOutcomeUnknown)
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if enlisted, err := s.enlist(t.Context(), c, before); enlisted || err != nil {
		t.Errorf("enlisted %t, %v", enlisted, err)
	}
	c.workers.stop()

	s.exchanging.Lock() // as Rebuild does
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if enlisted, err := s.enlist(ctx, c, s.rebuildCount()); enlisted || !errors.Is(err, context.Canceled) {
		t.Errorf("while one is at work: enlisted %t, %v", enlisted, err)
	}
	s.exchanging.Unlock()
	wantWritten(t, s, mustOpenInside(t, s, id, None))
}

// TestFileExchangedWhileOpening: a collection that is being opened, and that the file which comes in the place of the
// old one does not have, is opened once more.
func TestFileExchangedWhileOpening(t *testing.T) {
	s, _ := openInside(t, None)
	id := late()
	exchanged := false
	s.hooks.commit = func(tx *bolt.Tx) error {
		if err := tx.Commit(); err != nil || exchanged {
			return err
		}
		exchanged = true
		s.mu.Lock()
		s.rebuilds++
		s.mu.Unlock()
		return s.handle.DB.Update(func(tx *bolt.Tx) error {
			return tx.Bucket(format.BucketLarder).DeleteBucket([]byte(id.ID()))
		})
	}
	c := mustOpenInside(t, s, id, None)
	if !exchanged {
		t.Error("nothing was committed")
	}
	wantWritten(t, s, c)
}
