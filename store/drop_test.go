package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// dropAtOnce is the largest number of objects that Drop removes in one transaction.
const dropAtOnce = 2000

// dropPods is the size of a collection that Drop removes in several transactions.
const dropPods = dropAtOnce + 500

// smallStep is the number of bytes of a dropped collection that one transaction removes in these tests.
const smallStep = 64 << 10

func inSmallSteps(o store.Options) store.Options { return store.WithDropStep(o, smallStep) }

func fillToDrop(ctx context.Context, s *store.Store, id entry.Identity) (*store.Collection, error) {
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		return nil, err
	}
	c, err := s.Collection(ctx, id, store.CollectionOptions{
		Codec: codec, Residency: store.None, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		return nil, err
	}
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		return c, err
	}
	var page []runtime.Object
	for i := range dropPods {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID, p.ResourceVersion = "a", fmt.Sprintf("p-%06d", i), "u", "1"
		page = append(page, p)
	}
	if _, err := r.Page(ctx, page); err != nil {
		return c, err
	}
	_, err = r.Commit(ctx, entry.Batch{ResourceVersion: "1"})
	return c, err
}

func mustFillToDrop(t *testing.T, s *store.Store, id entry.Identity) {
	t.Helper()
	c, err := fillToDrop(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	mustEnd(t, c)
}

// wantDroppedOrComplete fails the test if the collection of pods exists but lacks pods, or if a part of a dropped
// collection is left in the file. It reports whether the collection exists.
func wantDroppedOrComplete(t *testing.T, s *store.Store) (there bool) {
	t.Helper()
	r, err := s.Check(t.Context())
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("check: %q, %v", r.Problems, err)
	}
	infos, err := s.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Identity.Namespace != pods().Namespace {
			continue
		}
		there = true
		if info.Complete && (info.Objects != dropPods || r.Objects < dropPods) {
			t.Fatalf("half of it: %+v, %+v", info, r)
		}
	}
	err = store.ViewFile(t.Context(), s, func(tx *bolt.Tx) error {
		if tx.Bucket(disk.Dropped) != nil {
			return fmt.Errorf("something is left of a collection that was dropped")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// TestDropInSteps drops a large collection in several transactions, and copies the file after each transaction, as a
// crash would leave it. In each copy the collection must be missing or complete, and the next Open must free the
// remaining pages.
func TestDropInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "store")
		var copies []string
		copying := false
		o := inSmallSteps(store.AtOnce(store.Options{Logger: &quiet}))
		o.Hooks = &hook.Hooks{Commit: func(commit func() error) error {
			err := commit()
			if copying {
				name := fmt.Sprintf("%s-%d", path, len(copies))
				copies = append(copies, name)
				mustCopy(t, path, name)
			}
			return err
		}}
		s := mustOpen(t, path, o)
		mustFillToDrop(t, s, pods())
		other := mustOpenPods(t, s, "other")
		applyOne(t, other)
		if !wantDroppedOrComplete(t, s) {
			t.Fatal("there is nothing to drop")
		}
		mustCopy(t, path, path+"-whole")
		copying = true
		if err := s.Drop(t.Context(), pods()); err != nil {
			t.Fatal(err)
		}
		copying = false
		if len(copies) < 10 {
			t.Errorf("%d transactions: those are no steps", len(copies))
		}
		if wantDroppedOrComplete(t, s) {
			t.Error("it is there still")
		}
		_, free, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		mustEnd(t, other)
		mustClose(t, s)
		for n, name := range append([]string{path + "-whole"}, copies...) {
			s := mustOpen(t, name, inSmallSteps(store.Options{}))
			synctest.Wait()
			if there := wantDroppedOrComplete(t, s); there != (n == 0) {
				t.Errorf("copy %d: it is there: %t", n, there)
			}
			if _, now, err := s.Size(); n > 0 && (err != nil || now < free-4*int64(filePageSize)) {
				t.Errorf("copy %d: %d bytes are free, %d after the drop, %v", n, now, free, err)
			}
			mustClose(t, s)
		}
	})
}

// TestDropCanceled checks that a Drop whose context ends has dropped the collection, and that its remaining pages are
// freed in the background. Meanwhile the same collection can be created and dropped.
func TestDropCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var commits atomic.Int32
		commits.Store(-1 << 20)
		o := inSmallSteps(store.AtOnce(store.Options{Logger: &quiet}))
		o.Hooks = &hook.Hooks{Commit: func(commit func() error) error {
			if commits.Add(1) == 3 {
				cancel()
			}
			return commit()
		}}
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
		for range 2 {
			mustFillToDrop(t, s, pods())
			commits.Store(0)
			if err := s.Drop(ctx, pods()); err != nil {
				t.Fatal(err)
			}
			ctx = t.Context()
		}
		synctest.Wait()
		if wantDroppedOrComplete(t, s) {
			t.Error("it is there still")
		}
		mustClose(t, s)
	})
}

// TestDropLetsOthersWrite checks that commits of other collections run between the transactions of a Drop.
func TestDropLetsOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var other *store.Collection
		steps, longest, written := 0, 0, make(chan error, 1)
		var watching atomic.Bool
		o := inSmallSteps(store.Options{Logger: &quiet})
		var s *store.Store
		o.Hooks = &hook.Hooks{Commit: func(commit func() error) error {
			if watching.Load() {
				if steps++; steps == 3 {
					applyOne(t, other)
					go func() { written <- s.Flush(context.Background()) }()
					synctest.Wait()
				}
				if steps >= 3 && s.Pending() > 0 {
					longest++
				}
			}
			return commit()
		}}
		s = mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
		mustFillToDrop(t, s, pods())
		other = mustOpenPods(t, s, "other")
		synctest.Wait()
		watching.Store(true)
		if err := s.Drop(t.Context(), pods()); err != nil {
			t.Fatal(err)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
		// The uncommitted changes wait for at most one step of the Drop: that step and their own commit are two commits.
		if longest != 2 || steps < 10 {
			t.Errorf("of %d commits %d were made while something was pending", steps, longest)
		}
		mustEnd(t, other)
		mustClose(t, s)
	})
}

// TestSalvageDuringADrop checks that damaged pages of a partly removed collection do not count as a loss.
func TestSalvageDuringADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, g := gated(store.AtOnce(store.Options{Logger: &quiet}))
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
		mustFillToDrop(t, s, pods())
		other := mustOpenPods(t, s, "other")
		applyOne(t, other)
		mustPutDocument(t, s, "d", large)
		unlinked := false
		g.Fail(func() error { // the Drop fails after its first transaction, and retries after a minute
			if unlinked {
				return syscall.ENOSPC
			}
			unlinked = true
			return nil
		})
		if err := s.Drop(t.Context(), pods()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		g.Fail(nil)
		var documents uint64
		err := store.ViewFile(t.Context(), s, func(tx *bolt.Tx) error {
			documents = uint64(tx.Bucket(disk.Documents).RootPage())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		patch(t, s, func(data []byte) { // makes the bucket of dropped collections refer to a page of the documents' bucket
			for rest := data; ; {
				at := bytes.Index(rest, disk.Dropped)
				if at < 0 {
					return
				}
				rest = rest[at+len(disk.Dropped):]
				binary.NativeEndian.PutUint64(rest, documents)
			}
		})
		s = salvage(t, s, store.AtOnce(store.Options{Logger: &quiet}))
		other = mustOpenPods(t, s, "other")
		if wantDroppedOrComplete(t, s) {
			t.Error("it is there still")
		}
		if info, err := other.Info(t.Context()); err != nil || info.Objects != 1 || info.MustRelist != "" {
			t.Errorf("another collection: %+v, %v", info, err)
		}
		mustEnd(t, other)
		mustClose(t, s)
	})
}

// TestCopiesDuringADrop checks that the file after Compact or Rekey has no plain text of a partly removed collection.
func TestCopiesDuringADrop(t *testing.T) {
	for name, remake := range map[string]func(s *store.Store, ctx context.Context) (store.Compacted, error){
		"compact": (*store.Store).Compact, "rekey": (*store.Store).Rekey,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, g := gated(store.AtOnce(store.Options{Logger: &quiet}))
				// This encryption seals only Secrets, so pods are stored as plain text.
				o.Encryption = &seal.Encryption{Keys: mustKeys(t, mustKey(t, ""))}
				s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
				mustFillToDrop(t, s, pods())
				unlinked := false
				g.Fail(func() error { // the Drop fails after its first transaction, and retries after a minute
					if unlinked {
						return syscall.ENOSPC
					}
					unlinked = true
					return nil
				})
				if err := s.Drop(t.Context(), pods()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				g.Fail(nil)
				if _, err := remake(s, t.Context()); err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(mustRead(t, s.Path()), []byte("p-000001")) {
					t.Error("the copy has what was dropped")
				}
				if wantDroppedOrComplete(t, s) {
					t.Error("it is there still")
				}
				mustClose(t, s)
			})
		})
	}
}

func childDrop(path string) error {
	s, err := store.Open(path, inSmallSteps(store.AtOnce(store.Options{Logger: &quiet, LockTimeout: 10 * time.Second})))
	if err != nil {
		return err
	}
	for {
		c, err := fillToDrop(context.Background(), s, pods())
		if err == nil {
			err = c.Close()
		}
		if err == nil {
			fmt.Println(1)
			err = s.Drop(context.Background(), pods())
		}
		if err != nil {
			return err
		}
	}
}

// TestKilledWhileDropping kills a process that drops a large collection, at random moments. After the next Open the
// collection must be missing or complete, and the file must not grow.
func TestKilledWhileDropping(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(3, 4))
	kills := soaked(4, 60)
	left, size := 0, int64(0)
	for kill := 0; kill < kills || left == 0 && kill < 20*kills; kill++ {
		// Later kills follow until a kill has interrupted a Drop.
		killChild(t, "drop", path, time.Duration(random.IntN(250_000*(1+kill/kills)))*time.Microsecond)
		left += countDropped(t, path)
		s := mustOpen(t, path, inSmallSteps(store.Options{}))
		store.WaitBackground(s)
		wantDroppedOrComplete(t, s)
		total, _, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		if size = max(size, total); size > 64<<20 {
			t.Fatalf("kill %d: %d bytes", kill, size)
		}
		mustClose(t, s)
	}
	t.Logf("%d of %d kills left something; %d bytes", left, kills, size)
	if left == 0 {
		t.Error("no kill came in the middle of a Drop")
	}
}

// countDropped returns 1 if a part of a dropped collection is left in the file, and 0 otherwise.
func countDropped(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(disk.Dropped); b != nil {
			n = b.Stats().BucketN - 1
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return min(n, 1)
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func applyOne(t *testing.T, c *store.Collection) {
	t.Helper()
	if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: somePod(1)}},
		ResourceVersion: "1"}); err != nil {
		t.Fatal(err)
	}
}

// TestPrune checks that Prune drops and logs the collections that this process has never opened. Collections that were
// opened stay, even if they are closed.
func TestPrune(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	before := mustOpen(t, path, store.Options{})
	for _, namespace := range []string{"a", "b", "c", "d"} {
		mustEnd(t, mustOpenPods(t, before, namespace))
	}
	mustClose(t, before)

	var dropped []string
	logger := funcr.New(func(_, args string) { dropped = append(dropped, args) }, funcr.Options{})
	s := mustOpen(t, path, store.Options{Logger: &logger})
	mustOpenPods(t, s, "b")
	mustEnd(t, mustOpenPods(t, s, "d"))
	for range 2 {
		if err := s.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := inFile(t, s), []string{"b", "d"}; !slices.Equal(got, want) {
		t.Errorf("in the file: %q, want %q", got, want)
	}
	if len(dropped) != 2 || !strings.Contains(dropped[0]+dropped[1], "not opened") {
		t.Errorf("logged: %q", dropped)
	}
	mustClose(t, s)
}
