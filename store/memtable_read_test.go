package store_test

import (
	"context"
	"sync"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// pausing is a context for one read. Its Err method blocks the read between its memtable snapshot and its transaction.
type pausing struct {
	context.Context
	once     sync.Once
	captured chan struct{}
	goOn     chan struct{}
}

func newPausing() *pausing {
	return &pausing{Context: context.Background(), captured: make(chan struct{}), goOn: make(chan struct{})}
}

func (p *pausing) Err() error {
	p.once.Do(func() {
		close(p.captured)
		<-p.goOn
	})
	return nil
}

// TestReadAcrossACommitAndAList checks that a read does not merge its memtable snapshot with a later list.
func TestReadAcrossACommitAndAList(t *testing.T) {
	for name, held := range map[string]bool{"BeforeTheCommit": false, "DuringTheCommit": true} {
		t.Run(name, func(t *testing.T) { testReadAcrossAList(t, held) })
	}
}

func testReadAcrossAList(t *testing.T, held bool) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "1", upsert("a/old", "1"))
	apply(t, c, "2", upsert("a/x", "2", storetest.ColorLabel, "red"))
	apply(t, c, "not a number")
	finish := func() error { return s.Flush(context.Background()) }
	if held {
		finish = hang(t, s, g)
	}
	ctx, infoCtx, keysCtx := newPausing(), newPausing(), newPausing()
	var listed, keys []string
	var info entry.Info
	var reads sync.WaitGroup
	reads.Go(func() {
		objs, err := c.List(ctx)
		for _, obj := range objs {
			listed = append(listed, storetest.Sum(obj))
		}
		if err != nil {
			t.Error(err)
		}
	})
	reads.Go(func() {
		var err error
		if info, err = c.Info(infoCtx); err != nil {
			t.Error(err)
		}
	})
	reads.Go(func() {
		var err error
		if keys, err = c.IndexKeys(keysCtx, "color", "red"); err != nil {
			t.Error(err)
		}
	})
	for _, p := range []*pausing{ctx, infoCtx, keysCtx} {
		<-p.captured
	}
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	relist(t, c, store.ReplaceOptions{Attributes: entry.Attributes{ClusterID: "new"}}, "9", upsert("b/y", "9"),
		upsert("b/z", "8"))
	for _, p := range []*pausing{ctx, infoCtx, keysCtx} {
		close(p.goOn)
	}
	reads.Wait()
	wantStrings(t, "List", listed, "b/y uid=uid-b/y rv=9", "b/z uid=uid-b/z rv=8")
	wantStrings(t, "IndexKeys", keys)
	if info.ResourceVersion != "9" || info.Objects != 2 || info.MustRelist != "" || info.Attributes.ClusterID != "new" {
		t.Errorf("Info: %+v", info)
	}
}
