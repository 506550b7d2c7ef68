package store_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

func pods() entry.Identity {
	return entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func mustCodec(t testing.TB, example runtime.Object) codec.Codec {
	t.Helper()
	c, err := codec.For(example)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func isDamaged(err error) bool { return errors.Is(err, entry.ErrDamaged) }

// failCommits makes the commits of s fail with the error that fail returns. A nil fail ends that.
func failCommits(s *store.Store, fail func() error) { store.GateCommits(s).Fail(fail) }

// failAfterCommits makes the commits of s fail with the error that fail returns, but only after they took effect.
func failAfterCommits(s *store.Store, fail func() error) { store.GateCommits(s).After(fail) }

// failNow makes a write without changes fail with an unknown outcome, so that the next write copies the file.
func failNow(t *testing.T, s *store.Store) {
	t.Helper()
	g := store.GateCommits(s)
	g.After(func() error { return syscall.EIO })
	err := store.UpdateFile(t.Context(), s, func(*bolt.Tx) error { return nil })
	g.After(nil)
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
}

// copyAgain copies the file of s if the outcome of the last write is unknown, and commits the dirty changes.
func copyAgain(s *store.Store) error {
	ctx := context.Background()
	return errors.Join(s.Flush(ctx), store.UpdateFile(ctx, s, func(*bolt.Tx) error { return nil }))
}

func mustCopyAgain(t *testing.T, s *store.Store) {
	t.Helper()
	if err := copyAgain(s); err != nil {
		t.Fatal(err)
	}
}

// salvage closes s and opens its file again, marked as damaged: Open copies the readable part.
func salvage(t *testing.T, s *store.Store, o store.Options) *store.Store {
	t.Helper()
	_ = s.Close() // a store that has failed cannot write its dirty changes
	if err := os.WriteFile(s.Path()+disk.SuffixOpening, []byte("1 copy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, s.Path(), o)
	if again.Quarantined() == "" {
		t.Error("the damaged file was not moved aside")
	}
	return again
}

// gated returns options for a store whose commits pass a gate, and that gate.
func gated(o store.Options) (store.Options, *hook.Gate) {
	g := &hook.Gate{}
	o.Hooks = &hook.Hooks{Commit: g.Commit}
	return o, g
}

func inFile(t *testing.T, s *store.Store) (namespaces []string) {
	t.Helper()
	infos, err := s.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		namespaces = append(namespaces, info.Identity.Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

func mustOpenPods(t *testing.T, s *store.Store, namespace string) *store.Collection {
	t.Helper()
	id := pods()
	id.Namespace = namespace
	return mustCollection(t, s, id)
}

func mustEnd(t *testing.T, c *store.Collection) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
