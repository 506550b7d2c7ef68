package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// somePod returns the i-th of the pods with which tests fill a store.
func somePod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("namespace-%d", i%5), Name: fmt.Sprintf("pod-%04d", i),
			UID: types.UID(fmt.Sprintf("uid-%d", i)), ResourceVersion: fmt.Sprint(1000 + i),
			Annotations: map[string]string{"padding": strings.Repeat("x", scaled(300))},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%7)},
	}
}

func mustCollection(t *testing.T, s *store.Store, id entry.Identity) *store.Collection {
	t.Helper()
	c, err := s.Collection(t.Context(), id, store.CollectionOptions{
		Residency: store.None,
		Codec:     mustCodec(t, &corev1.Pod{}),
		Indexers:  cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustList(t *testing.T, c *store.Collection, n int) {
	t.Helper()
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
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
	if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: fmt.Sprint(1000 + n)}); err != nil {
		t.Fatal(err)
	}
	if err := store.StoreOf(c).Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func otherPods() entry.Identity {
	id := pods()
	id.Namespace = "other"
	return id
}

func filled(t *testing.T, o store.Options) (s *store.Store, many, few *store.Collection) {
	t.Helper()
	s = mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
	many, few = mustCollection(t, s, pods()), mustCollection(t, s, otherPods())
	mustList(t, many, 1000)
	mustList(t, few, 200)
	return s, many, few
}

func count(t *testing.T, c *store.Collection) (n int, info entry.Info) {
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

// wantUsable checks that the store passes Check, is locked by this process and can be written, and that the next
// process can open it without moving it aside.
func wantUsable(t *testing.T, s *store.Store, c *store.Collection) {
	t.Helper()
	if s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
	_, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: somePod(5000)}}, ResourceVersion: "6000"})
	if err != nil {
		t.Errorf("a write after the repair: %v", err)
	}
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
	if _, err := store.Open(s.Path(), store.Options{LockTimeout: -1}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("the store is open to others: %v", err)
	}
	n, _ := count(t, c)
	mustClose(t, s)
	wantNames(t, filepath.Dir(s.Path()), append([]string{"store"},
		baseNames(disk.Beside(s.Path(), disk.SuffixDamaged))...)...)
	again := mustOpen(t, s.Path(), store.Options{})
	if again.Quarantined() != "" {
		t.Error("the store was moved aside again")
	}
	c = mustCollection(t, again, c.Identity())
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

// TestCopyAfterFailedSync checks that the copy after a failed sync loses nothing, and that readers do not wait for it.
func TestCopyAfterFailedSync(t *testing.T) {
	s, many, few := filled(t, store.AtOnce(store.Options{}))
	failAfterCommits(s, func() error { return syscall.EIO })
	_, err := many.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: somePod(1000)}}, ResourceVersion: "2001"})
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	failAfterCommits(s, nil)
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
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	readers.Wait()
	for c, want := range map[*store.Collection]int{many: 1001, few: 200} {
		if n, info := count(t, c); n != want || info.Objects != want || info.MustRelist != "" || !info.Complete ||
			len(info.Newest) == 0 {
			t.Errorf("%d objects, want %d; %+v", n, want, info)
		}
	}
	if _, info := count(t, many); info.ResourceVersion != "2001" {
		t.Errorf("resourceVersion %s: what readers saw is what is kept", info.ResourceVersion)
	}
	wantUsable(t, s, many)
}

// TestCopyOfADamagedFile checks that the copy verifies the pages: the kernel may read back old pages after a failed
// sync.
func TestCopyOfADamagedFile(t *testing.T) {
	s, _, _ := filled(t, store.Options{Logger: &quiet})
	failNow(t, s)
	patch(t, s, func(data []byte) {
		leaves := objectPages(t, data)
		data[leaves[len(leaves)/2]] ^= 1
	})
	if err := copyAgain(s); !errors.Is(err, entry.ErrDamaged) || !errors.Is(s.Err(), entry.ErrDamaged) {
		t.Errorf("the copy of a file with a damaged page: %v, Err %v", err, s.Err())
	}
	s = salvage(t, s, store.Options{Logger: &quiet})
	many := mustCollection(t, s, pods())
	if n, info := count(t, many); n == 1000 || info.MustRelist != store.MustRelistDamaged {
		t.Errorf("%d objects, %+v", n, info)
	}
}

// TestCopyFails checks that reads continue when there is no space for the copy, and that it is repeated.
func TestCopyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, many, _ := filled(t, store.Options{})
		failNow(t, s)
		store.SetMaxSize(s, 1<<10)
		if err := copyAgain(s); !errors.Is(err, store.ErrNoSpace) || !errors.Is(err, store.ErrOutcomeUnknown) ||
			!strings.Contains(err.Error(), s.Path()) {
			t.Errorf("copy: %v", err)
		}
		if n, _ := count(t, many); n != 1000 || s.Err() != nil {
			t.Errorf("%d objects, Err: %v", n, s.Err())
		}
		// The ".opening" file stays, so that the next process verifies the store.
		wantNames(t, filepath.Dir(s.Path()), "store", "store"+disk.SuffixOpening)
		store.SetMaxSize(s, 0)
		if err := copyAgain(s); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(2 * time.Second)
		mustCopyAgain(t, s)
		wantUsable(t, s, many)
	})
}
