package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestAttachAmidEverything: collections are written, listed, read, indexed, opened and closed while the file is taken over. Nobody waits for ever, nobody meets an error, and what there is in the end is what
// was written last.
func TestAttachAmidEverything(t *testing.T) {
	t.Parallel()
	for attempt := range 2 {
		path := filepath.Join(t.TempDir(), "larder.db")
		old := leave(t, path, byNamespaceAndColor, oldPods...)
		s := openDetached(t, path, store.Options{Logger: &quiet, CommitInterval: []time.Duration{-1, time.Millisecond}[attempt%2]})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		begun := make(chan struct{}, 10)
		for n, work := range []func(n int) error{
			applying(t, s, "applied"), listing(t, s, "listed"), indexing(t, s), reopening(s),
		} {
			wg.Go(func() {
				for i := 1; ctx.Err() == nil; i++ {
					if err := work(i); err != nil {
						t.Errorf("work %d: %v", n, err)
						return
					}
					if i == 3 {
						begun <- struct{}{}
					}
				}
			})
		}
		for range 4 {
			<-begun
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Attached():
		case <-time.After(time.Minute): // of a machine that is busy
			t.Errorf("still in memory: %v", s.Detached())
		}
		time.Sleep(20 * time.Millisecond) // of the works on the file
		cancel()
		wg.Wait()
		storetest.Check(t, s)
	}
}

// wantNow checks that the pod is at the resourceVersion, by key and by an index.
func wantNow(c *store.Collection, key string, n int) error {
	obj, err := c.Get(context.Background(), key)
	if err != nil {
		return err
	}
	want := storetest.Sum(storetest.Pod(key, "uid", strconv.Itoa(n), storetest.ColorLabel, strconv.Itoa(n)))
	if obj == nil || storetest.Sum(obj) != want {
		return fmt.Errorf("got %s, want %s", storetest.Sum(obj), want)
	}
	keys, err := c.IndexKeys(context.Background(), "color", strconv.Itoa(n))
	if err == nil && len(keys) != 1 {
		err = fmt.Errorf("the index has %q", keys)
	}
	return err
}

func numbered(key string, n int) store.Op {
	return store.Op{Object: storetest.Pod(key, "uid", strconv.Itoa(n), storetest.ColorLabel, strconv.Itoa(n))}
}

func applying(t *testing.T, s *store.Store, namespace string) func(n int) error {
	c := openNamed(t, s, namespace)
	relist(t, c, store.ReplaceOptions{}, "0")
	return func(n int) error {
		_, err := c.Apply(context.Background(), store.Batch{Ops: []store.Op{numbered(namespace+"/a", n)}, ResourceVersion: strconv.Itoa(n)})
		if err != nil {
			return err
		}
		return wantNow(c, namespace+"/a", n)
	}
}

func listing(t *testing.T, s *store.Store, namespace string) func(n int) error {
	c := openNamed(t, s, namespace)
	relist(t, c, store.ReplaceOptions{}, "0")
	return func(n int) error {
		r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
		if err != nil {
			return err
		}
		if _, err = r.Page(context.Background(), pods(numbered(namespace+"/a", n), numbered(fmt.Sprintf("%s/b%d", namespace, n), n+1e6))); err == nil {
			_, err = r.Commit(context.Background(), store.Batch{ResourceVersion: strconv.Itoa(n)})
		}
		if err != nil {
			return err
		}
		return wantNow(c, namespace+"/a", n)
	}
}

func indexing(t *testing.T, s *store.Store) func(n int) error {
	c := openNamed(t, s, "indexed")
	var ops []store.Op
	for i := range soaked(1100, 2000) { // more than a page of a merge, or of a build
		ops = append(ops, numbered(fmt.Sprintf("indexed/%d", i), i))
	}
	relist(t, c, store.ReplaceOptions{}, "1", ops...)
	return func(n int) error {
		if n > 20 {
			time.Sleep(time.Millisecond)
			return wantNow(c, "indexed/7", 7)
		}
		name := "index " + strconv.Itoa(n)
		if err := c.AddIndexers(cache.Indexers{name: storetest.ByName}, nil); err != nil {
			return err
		}
		keys, err := c.IndexKeys(context.Background(), name, "123")
		if err == nil && len(keys) != 1 {
			err = fmt.Errorf("%s has %q", name, keys)
		}
		return err
	}
}

func reopening(s *store.Store) func(n int) error {
	return func(n int) error {
		id := storetest.Pods
		id.Namespace = "reopened"
		c, err := s.Collection(context.Background(), id, store.CollectionOptions{Codec: storetest.PodCodec(), Indexers: byNamespaceAndColor})
		if err != nil {
			return err
		}
		if n == 1 {
			var r store.Replacement
			if r, err = c.BeginReplace(context.Background(), store.ReplaceOptions{}); err == nil {
				_, err = r.Commit(context.Background(), store.Batch{ResourceVersion: "0"})
			}
		}
		if err == nil {
			_, err = c.Apply(context.Background(), store.Batch{Ops: []store.Op{numbered("reopened/a", n)}, ResourceVersion: strconv.Itoa(n)})
		}
		if err == nil {
			err = wantNow(c, "reopened/a", n)
		}
		return errors.Join(err, c.Close())
	}
}

// TestAttachAmidABuild: an index that is being built when the file comes is built of the file's records.
func TestAttachAmidABuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	old := leave(t, path, nil, oldPods...)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenInMemory(path, store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := openPods(t, s, nil)
	const objects = 15_000
	var ops []store.Op
	for i := range objects {
		ops = append(ops, upsert(fmt.Sprintf("a/%05d", i), "5"))
	}
	relist(t, c, store.ReplaceOptions{}, "20", ops...)
	build := store.HoldBuild(c, "name")
	if err := c.AddIndexers(cache.Indexers{"name": storetest.ByName}, nil); err != nil {
		t.Fatal(err)
	}
	build()
	if err := store.Attach(s); err != nil {
		t.Fatal(err)
	}
	store.WaitBuilds(c)
	if !store.IndexReady(c, "name") {
		t.Error("the index is not built")
	}
	values, err := c.IndexValues(t.Context(), "name")
	if err != nil || len(values) != objects {
		t.Errorf("the index has %d values, %v", len(values), err)
	}
	storetest.Check(t, s)
}
