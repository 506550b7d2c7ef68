package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// somePod is the i-th pod of the tests of whole stores.
func somePod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("namespace-%d", i%5), Name: fmt.Sprintf("pod-%04d", i),
			UID: types.UID(fmt.Sprintf("uid-%d", i)), ResourceVersion: fmt.Sprint(1000 + i),
			Annotations: map[string]string{"padding": strings.Repeat("x", 300)},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%7)},
	}
}

func mustCollection(t *testing.T, s *Store, id Identity) *Collection {
	t.Helper()
	c, err := s.Collection(t.Context(), id, CollectionOptions{
		Codec:    mustCodec(t, &corev1.Pod{}),
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustList takes in a list of the first n pods.
func mustList(t *testing.T, c *Collection, n int) {
	t.Helper()
	r, err := c.BeginReplace(t.Context(), ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	for from := 0; from < n; from += 500 {
		var page []runtime.Object
		for i := from; i < min(n, from+500); i++ {
			page = append(page, somePod(i))
		}
		if _, err := r.Page(t.Context(), page); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Commit(t.Context(), Batch{ResourceVersion: fmt.Sprint(1000 + n)}); err != nil {
		t.Fatal(err)
	}
}

func otherPods() Identity {
	id := pods()
	id.Namespace = "other"
	return id
}

// filled returns a store with two collections, of 1,000 pods and of 200.
func filled(t *testing.T, o Options) (s *Store, many, few *Collection) {
	t.Helper()
	s = mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
	many, few = mustCollection(t, s, pods()), mustCollection(t, s, otherPods())
	mustList(t, many, 1000)
	mustList(t, few, 200)
	return s, many, few
}

func count(t *testing.T, c *Collection) (n int, info Info) {
	t.Helper()
	objs, err := c.List(t.Context())
	if err != nil {
		t.Errorf("list: %v", err)
	}
	info, err = c.Info(t.Context())
	if err != nil {
		t.Errorf("info: %v", err)
	}
	return len(objs), info
}

// wantUsable verifies that the store is sound, held by us, and written, and
// that the next process takes it as it is.
func wantUsable(t *testing.T, s *Store, c *Collection) {
	t.Helper()
	if s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
	_, err := c.Apply(t.Context(), Batch{Ops: []Op{{Object: somePod(5000)}}, ResourceVersion: "6000"})
	if err != nil {
		t.Errorf("a write after the rebuild: %v", err)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
	if _, err := Open(s.Path(), Options{LockTimeout: -1}); !errors.Is(err, ErrLocked) {
		t.Errorf("the store is open to others: %v", err)
	}
	n, _ := count(t, c)
	mustClose(t, s)
	wantNames(t, filepath.Dir(s.Path()), append([]string{"store"}, baseNames(beside(s.Path(), suffixDamaged))...)...)
	again := mustOpen(t, s.Path(), Options{})
	if again.Quarantined() != "" {
		t.Error("the rebuilt store was moved aside")
	}
	c = mustCollection(t, again, c.id)
	if m, _ := count(t, c); m != n {
		t.Errorf("%d objects when opened again, %d before", m, n)
	}
	mustClose(t, again)
}

func baseNames(paths []string) (names []string) {
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// TestRebuildAfterFailedSync: nothing is lost, and readers never wait or fail meanwhile.
func TestRebuildAfterFailedSync(t *testing.T) {
	s, many, few := filled(t, Options{})
	s.hooks.commit = func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), syscall.EIO) }
	_, err := many.Apply(t.Context(), Batch{Ops: []Op{{Object: somePod(1000)}}, ResourceVersion: "2001"})
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	s.hooks.commit = nil
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if objs, err := many.ByIndex(t.Context(), cache.NamespaceIndex, "namespace-0"); err != nil || len(objs) != 201 {
					t.Errorf("a reader got %d objects, %v", len(objs), err)
				}
			}
		})
	}
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	readers.Wait()
	for c, want := range map[*Collection]int{many: 1001, few: 200} {
		if n, info := count(t, c); n != want || info.Objects != want || info.MustRelist != "" || !info.Complete || len(info.Newest) == 0 {
			t.Errorf("%d objects, want %d; %+v", n, want, info)
		}
		if c.Losses() != 0 {
			t.Error("losses")
		}
	}
	if _, info := count(t, many); info.ResourceVersion != "2001" {
		t.Errorf("resourceVersion %s: what readers saw is what is kept", info.ResourceVersion)
	}
	wantUsable(t, s, many)
}

// TestRebuildOfAGoodStore does nothing: many may call it for one failure.
func TestRebuildOfAGoodStore(t *testing.T) {
	s, many, _ := filled(t, Options{})
	s.failNow(ErrDamaged)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if err := s.Rebuild(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if s.rebuilds != 1 {
		t.Errorf("%d rebuilds for one failure", s.rebuilds)
	}
	wantUsable(t, s, many)
}

// failNow makes the store fail with reason.
func (s *Store) failNow(reason error) {
	s.mu.Lock()
	h := s.handle
	s.mu.Unlock()
	s.fail(h, reason)
}

// patch changes the store's file under its feet.
func patch(t *testing.T, s *Store, change func(data []byte)) {
	t.Helper()
	data, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(data)
	change(data)
	f, err := os.OpenFile(s.Path(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(data); at += 4096 { // what has not changed is not touched
		if page := data[at:min(at+4096, len(data))]; !bytes.Equal(page, before[at:at+len(page)]) {
			if _, err := f.WriteAt(page, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// objectPages are the offsets of some leaves that hold pods of the large
// collection, and of no other: the other has none of those names.
func objectPages(t *testing.T, data []byte) (leaves []int) {
	t.Helper()
	for _, off := range pagesOf(t, data)["leaf"] {
		if page := data[off : off+4096]; bytes.Contains(page, []byte("/pod-05")) && bytes.Contains(page, []byte("padding")) {
			leaves = append(leaves, off)
		}
	}
	if len(leaves) < 10 {
		t.Fatalf("%d leaves with pods", len(leaves))
	}
	return leaves
}

// TestRebuildAfterDamage damages a store while it is open, in ways that lose
// more or less, and rebuilds it.
func TestRebuildAfterDamage(t *testing.T) {
	for what, test := range map[string]struct {
		damage func(t *testing.T, s *Store)
		// min and max objects that must be left in the large collection
		min, max int
	}{
		"one bad record": {func(t *testing.T, s *Store) {
			patch(t, s, func(data []byte) {
				leaves := objectPages(t, data)
				for _, off := range leaves[len(leaves)/2:] {
					if at := bytes.Index(data[off:off+4096], []byte("xxxx")); at >= 0 {
						data[off+at] ^= 1
						return
					}
				}
			})
		}, 998, 1000},
		"a leaf with another's id": {func(t *testing.T, s *Store) {
			patch(t, s, func(data []byte) {
				leaves := objectPages(t, data)
				data[leaves[len(leaves)/2]] ^= 1
			})
		}, 900, 999},
		"a leaf with fewer entries": { // which only the count of objects tells
			func(t *testing.T, s *Store) {
				patch(t, s, func(data []byte) {
					leaves := objectPages(t, data)
					count := data[leaves[len(leaves)/2]+10:]
					binary.NativeEndian.PutUint16(count, binary.NativeEndian.Uint16(count)-1)
				})
			}, 999, 999},
		"zeros in the middle": {func(t *testing.T, s *Store) {
			patch(t, s, func(data []byte) {
				leaves := objectPages(t, data)
				for _, off := range leaves[2:8] {
					clear(data[off : off+4096])
				}
			})
		}, 500, 999},
		"branches that point to themselves": {func(t *testing.T, s *Store) {
			patch(t, s, func(data []byte) {
				for _, off := range pagesOf(t, data)["branch"] {
					last := int(binary.NativeEndian.Uint16(data[off+10:])) - 1
					copy(data[off+16+16*last+8:], data[off:off+8])
				}
			})
		}, 0, 0},
		"cut short": {func(t *testing.T, s *Store) {
			if err := os.Truncate(s.Path(), 100<<10); err != nil {
				t.Fatal(err)
			}
		}, 0, 900},
		"no meta pages": {func(t *testing.T, s *Store) {
			patch(t, s, func(data []byte) { clear(data[:8192]) })
		}, 0, 0},
		"the collection's info is bad": {func(t *testing.T, s *Store) {
			patch(t, s, func(data []byte) {
				for at := 0; ; {
					i := bytes.Index(data[at:], []byte("nextSeq"))
					if i < 0 {
						return
					}
					at += i
					data[at] ^= 1
				}
			})
		}, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			s, many, few := filled(t, Options{})
			test.damage(t, s)
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			n, info := count(t, many)
			if n < test.min || n > test.max || info.Objects != n {
				t.Errorf("%d objects are left, want %d to %d; info says %d", n, test.min, test.max, info.Objects)
			}
			if lost := n < 1000; lost != (info.MustRelist == damagedReason || !info.Complete) || lost != (many.Losses() > 0) {
				t.Errorf("%d objects are left: %+v, losses %d", n, info, many.Losses())
			}
			if n, info := count(t, few); info.Objects != n || n < 200 && info.MustRelist == "" && info.Complete {
				t.Errorf("the other collection: %d objects, %+v", n, info)
			}
			mustList(t, many, 1000)
			if n, info := count(t, many); n != 1000 || info.MustRelist != "" || !info.Complete {
				t.Errorf("listed anew: %d objects, %+v", n, info)
			}
			wantUsable(t, s, many)
		})
	}
}

// TestRebuildEndsLists: a list that found objects unchanged, which are lost
// since, would be missing them.
func TestRebuildEndsLists(t *testing.T) {
	s, many, few := filled(t, Options{})
	for _, c := range []*Collection{many, few} {
		r, err := c.BeginReplace(t.Context(), ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Abort()
		if _, err := r.Page(t.Context(), []runtime.Object{somePod(0)}); err != nil {
			t.Fatal(err)
		}
		if c == many {
			patch(t, s, func(data []byte) {
				leaves := objectPages(t, data)
				clear(data[leaves[0] : leaves[0]+4096])
			})
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err = r.Commit(t.Context(), Batch{ResourceVersion: "9"})
		} else {
			s.failNow(ErrOutcomeUnknown)
			if err := s.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err = r.Commit(t.Context(), Batch{ResourceVersion: "9"})
		}
		if lost := c.Losses() > 0; lost != errors.Is(err, ErrReplaceLost) || !lost && err != nil {
			t.Errorf("losses %d, commit: %v", c.Losses(), err)
		}
	}
}

// TestRebuildFails: the disk has no room for a second file. Reads go on, and the
// next call succeeds.
func TestRebuildFails(t *testing.T) {
	s, many, _ := filled(t, Options{})
	s.failNow(fmt.Errorf("a test: %w", ErrOutcomeUnknown))
	s.o.MaxSize = 1 << 10
	if err := s.Rebuild(t.Context()); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("rebuild: %v", err)
	}
	if n, _ := count(t, many); n != 1000 {
		t.Errorf("%d objects", n)
	}
	if !errors.Is(s.Err(), ErrOutcomeUnknown) {
		t.Errorf("Err: %v", s.Err())
	}
	wantNames(t, filepath.Dir(s.Path()), "store", "store"+suffixOpening) // which a failing store leaves
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.o.MaxSize = 0
	if err := s.Rebuild(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantUsable(t, s, many)
}

// TestRebuildOfAMovedStore: somebody has removed the file, or put another in its place.
func TestRebuildOfAMovedStore(t *testing.T) {
	s, many, _ := filled(t, Options{})
	if err := os.Rename(s.Path(), s.Path()+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path(), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.failNow(ErrOutcomeUnknown)
	if err := s.Rebuild(t.Context()); !errors.Is(err, ErrForeign) {
		t.Errorf("over another file: %v", err)
	}
	if data, err := os.ReadFile(s.Path()); err != nil || string(data) != "mine" {
		t.Errorf("the other file has %q, %v", data, err)
	}
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.Path() + "-elsewhere"); err != nil {
		t.Fatal(err)
	}
	wantUsable(t, s, many)
}

func TestRebuildReadOnly(t *testing.T) {
	s, _, _ := filled(t, Options{})
	mustClose(t, s)
	s = mustOpen(t, s.Path(), Options{ReadOnly: true})
	if err := s.Rebuild(t.Context()); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
}

// TestOpenWhileRebuilding: a collection of which Rebuild does not know yet is
// opened once more, since the new file need not have it.
func TestOpenWhileRebuilding(t *testing.T) {
	s, _, _ := filled(t, Options{})
	before := s.rebuildCount()
	id := pods()
	id.Namespace = "late"
	c, err := openCollection(t.Context(), s, id.ID(), id, CollectionOptions{Codec: mustCodec(t, somePod(0))})
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
	c.builds.stop()

	s.writer <- struct{}{} // as Rebuild does
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if enlisted, err := s.enlist(ctx, c, s.rebuildCount()); enlisted || !errors.Is(err, context.Canceled) {
		t.Errorf("while one is at work: enlisted %t, %v", enlisted, err)
	}
	<-s.writer
	wantUsable(t, s, mustCollection(t, s, id))
}
