package store_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestAddIndexersWhoseOutcomeIsUnknown checks an index that is ready in the file although AddIndexers failed with an
// unknown outcome: it must get changes that are written before AddIndexers is repeated.
func TestAddIndexersWhoseOutcomeIsUnknown(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPodsAs(t, s, nil, store.None)
	relist(t, c, store.ReplaceOptions{}, "1")
	apply(t, c, "2")
	flush(t, s)
	color, versions := cache.Indexers{"color": storetest.ByColor}, map[string]string{"color": "1"}
	g.After(func() error { return syscall.EIO })
	if err := c.AddIndexers(context.Background(), color, versions); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatalf("AddIndexers: %v", err)
	}
	g.After(nil)
	mustCopyAgain(t, s)
	apply(t, c, "3", upsert("a/x", "3", storetest.ColorLabel, "red"))
	flush(t, s)
	if err := c.AddIndexers(context.Background(), color, versions); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, c, "color", "red", "a/x")
	store.WaitBuilds(c)
	wantKeys(t, c, "color", "red", "a/x")
	storetest.Check(t, s)
}
