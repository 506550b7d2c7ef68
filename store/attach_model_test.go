package store_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestAttachModel: a collection is what the model says before, when and after its store gets its file, in which an older process has left something else.
func TestAttachModel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bounds         [2]int
		commitInterval time.Duration
		residency      store.Residency
		compression    store.Compression
		// sealed: the new process has keys; leftSealed: the older one had another.
		sealed, leftSealed bool
	}{
		"Late":     {bounds: [2]int{64 << 20, 256 << 20}, commitInterval: time.Hour, residency: store.None, compression: store.Zstd},
		"Chunked":  {bounds: [2]int{64 << 20, 300}, commitInterval: -1, residency: store.All},
		"Spilling": {bounds: [2]int{300, 300}, commitInterval: time.Microsecond, residency: store.Bounded(3000)},
		"Sealed": {
			bounds: [2]int{64 << 20, 256 << 20}, commitInterval: time.Hour, residency: store.None, compression: store.Zstd, sealed: true, leftSealed: true,
		},
		"SealedOverPlain": {bounds: [2]int{300, 300}, commitInterval: -1, residency: store.Bounded(3000), sealed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, n := t.TempDir(), 0
			fresh, old := storetest.Key(t), storetest.Key(t)
			rapid.Check(t, func(t *rapid.T) {
				n++
				path := filepath.Join(dir, strconv.Itoa(n))
				var left, now *store.Encryption
				if test.leftSealed {
					left = storetest.Sealing(t, old)
				}
				if test.sealed {
					now = storetest.Sealing(t, fresh, old)
				}
				leaveRandom(t, path, test.compression, left)
				s, err := store.OpenInMemory(path, store.Options{Logger: &quiet, CommitInterval: test.commitInterval, MemoryWhileLocked: true, Encryption: now})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}()
				attachModel(t, s, test.sealed, test.bounds, store.CollectionOptions{Codec: storetest.PodCodec(), Residency: test.residency, Compression: test.compression})
			})
		})
	}
}

func attachModel(t *rapid.T, s *store.Store, sealed bool, bounds [2]int, o store.CollectionOptions) {
	var c *store.Collection
	storetest.RunModel(t, storetest.Harness{
		Open: func(t *rapid.T, indexers cache.Indexers, versions map[string]string) store.Interface {
			o.Indexers, o.IndexVersions = indexers, versions
			var err error
			if c, err = s.Collection(context.Background(), storetest.Pods, o); err != nil {
				t.Fatal(err)
			}
			store.SetLimits(c, bounds[0], bounds[1])
			store.SetAttachLimit(c, bounds[1])
			if o.Compression != store.NoCompression {
				store.SetSampling(c, 1<<10, 200)
			}
			return c
		},
		Close:  func(*rapid.T) { c.Close() },
		Settle: func() { store.WaitBuilds(c) },
		Flush: func(t *rapid.T) {
			var err error
			if s.Detached() != nil && store.HasAnything(c) && rapid.Bool().Draw(t, "attach") {
				err = store.Attach(s)
				store.NoSync(s)
			} else {
				err = s.Flush(context.Background())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		Check: func(t *rapid.T) {
			storetest.Check(t, s)
			if info, err := c.Info(context.Background()); err != nil || info.Sealed != sealed {
				t.Fatalf("sealed: %v, %v", info.Sealed, err)
			} else if plain, err := store.PlainRecords(s); err != nil || sealed && !info.PlainText && plain > 0 {
				t.Fatalf("%d records are in plain text, %v", plain, err)
			}
		},
	})
	_ = c.Close()
}

// leaveRandom makes what an older process has left: none, a part or all of some pods, by some indexes.
func leaveRandom(t *rapid.T, path string, compression store.Compression, encryption *store.Encryption) {
	s, err := store.Open(path, store.Options{Logger: &quiet, Encryption: encryption})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	store.NoSync(s)
	indexers := cache.Indexers{}
	for _, name := range []string{cache.NamespaceIndex, "color", "name"} {
		if rapid.Bool().Draw(t, "old index "+name) {
			indexers[name] = map[string]cache.IndexFunc{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "color": storetest.ByName, "name": storetest.ByName}[name]
		}
	}
	c, err := s.Collection(context.Background(), storetest.Pods, store.CollectionOptions{
		Codec: storetest.PodCodec(), Residency: store.None, Indexers: indexers, Compression: compression,
		IndexVersions: map[string]string{"color": rapid.SampledFrom([]string{"", "3"}).Draw(t, "old version")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if compression != store.NoCompression {
		store.SetSampling(c, 1<<10, 200)
	}
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a/0", "a/x", "a/y", "a.b/x", "b/x-y", "c", "zz/z", "zzz"} {
		if rapid.Bool().Draw(t, "old "+key) {
			if _, err := r.Page(context.Background(), pods(upsert(key, "1", storetest.ColorLabel, "red"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "whole") > 0 {
		if _, err := r.Commit(context.Background(), store.Batch{ResourceVersion: "1"}); err != nil {
			t.Fatal(err)
		}
	} else {
		r.Abort()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// view is what somebody knows of a collection: uid and resourceVersion by key.
type view map[string]string

func viewOf(c *store.Collection) (view, error) {
	v := view{}
	err := c.Iterate(context.Background(), "", func(key string, obj runtime.Object) error {
		v[key] = storetest.Sum(obj)
		return nil
	})
	return v, err
}

// TestAttachAmidWrites: what is applied between the steps of an attachment is read at once and is not lost, nobody reads anything else meanwhile, and a durable handler of the
// older process comes to the same state by what it is told after that.
func TestAttachAmidWrites(t *testing.T) {
	for name, residency := range map[string]store.Residency{"All": store.All, "Bounded": store.Bounded(3000), "None": store.None} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, n := t.TempDir(), 0
			rapid.Check(t, func(t *rapid.T) {
				n++
				attachAmidWrites(t, filepath.Join(dir, strconv.Itoa(n)), residency)
			})
		})
	}
}

func attachAmidWrites(t *rapid.T, path string, residency store.Residency) {
	ctx := context.Background()
	known := leaveFed(t, path)
	w := &writes{batches: rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 19), 1, 4), 4, 12).Draw(t, "batches"), rv: 100}
	s, err := store.OpenInMemory(path, store.Options{Logger: &quiet, CommitInterval: time.Hour, Hooks: &hook.Hooks{Commit: func(commit func() error) error {
		w.next()
		err := commit()
		w.next()
		return err
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c, err := s.Collection(ctx, storetest.Pods, store.CollectionOptions{Codec: storetest.PodCodec(), Residency: residency, Indexers: byNamespaceAndColor})
	if err != nil {
		t.Fatal(err)
	}
	store.SetAttachLimit(c, rapid.SampledFrom([]int{100, 1 << 20}).Draw(t, "limit"))
	var ops []store.Op
	for i := range 10 {
		if rapid.Bool().Draw(t, "listed") {
			ops = append(ops, upsert(writtenKey(i), strconv.Itoa(20+i), storetest.ColorLabel, "green"))
		}
	}
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err == nil {
		_, err = r.Page(ctx, pods(ops...))
	}
	if err == nil {
		_, err = r.Commit(ctx, store.Batch{ResourceVersion: "50"})
	}
	if err == nil {
		w.want, err = viewOf(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.c = c
	w.next()
	if err := store.Attach(s); err != nil {
		t.Fatal(err)
	}
	for w.next() {
	}
	if err := s.Flush(ctx); err != nil || w.err != nil {
		t.Fatal(err, w.err)
	}
	storetest.Check(t, s)
	if told := follow(t, c, known); !maps.Equal(told, w.want) {
		t.Fatalf("the durable handler knows %v, and there is %v", told, w.want)
	}
	_ = c.Close()
}

// leaveFed leaves some pods and a durable handler that knows them, which it returns.
func leaveFed(t *rapid.T, path string) view {
	ctx := context.Background()
	s, err := store.Open(path, store.Options{Logger: &quiet, CommitInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	store.NoSync(s)
	c, err := s.Collection(ctx, storetest.Pods, store.CollectionOptions{Codec: storetest.PodCodec(), Residency: store.None})
	if err != nil {
		t.Fatal(err)
	}
	var ops []store.Op
	for i := range 10 {
		if rapid.Bool().Draw(t, "left") {
			ops = append(ops, upsert(writtenKey(i), strconv.Itoa(1+i*rapid.IntRange(0, 1).Draw(t, "same")), storetest.ColorLabel, "green"))
		}
	}
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err == nil {
		_, err = r.Page(ctx, pods(ops...))
	}
	if err == nil {
		_, err = r.Commit(ctx, store.Batch{ResourceVersion: "15"})
	}
	if err != nil {
		t.Fatal(err)
	}
	v, err := viewOf(c)
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, c, v)
}

// follow has the durable handler read all that there is for it, which knows v, and acknowledge it.
func follow(t *rapid.T, c *store.Collection, v view) view {
	f, err := c.Feed(context.Background(), "h")
	if err != nil {
		t.Fatal(err)
	}
	place, resets, err := f.Place()
	if err != nil {
		t.Fatal(err)
	}
	if place.Replaying && place.Why != store.ResetNew {
		t.Fatalf("the handler begins anew: %s", place.Why)
	}
	for more := true; more; {
		p, err := f.Read(context.Background(), place.Seq)
		if err != nil {
			t.Fatal(err)
		}
		for _, ch := range p.Changes {
			if ch.Type == store.Delete {
				delete(v, ch.Key)
			} else {
				v[ch.Key] = storetest.Sum(ch.Object)
			}
		}
		place.Seq, more = p.End, p.More
	}
	place.Replaying = false
	if err := f.Acknowledge(place, resets); err != nil {
		t.Fatal(err)
	}
	return v
}

func writtenKey(i int) string { return fmt.Sprintf("n/%d", i) }

// writes are what is applied to a collection, a batch at a time, and what it must be.
type writes struct {
	c       *store.Collection
	batches [][]int // keys; those above 9 are deletes of that less 10
	rv      int
	want    view
	err     error
}

// next applies a batch and compares; it is false when there is none left.
func (w *writes) next() bool {
	if w.c == nil || w.err != nil || len(w.batches) == 0 {
		return false
	}
	b := store.Batch{}
	for _, n := range w.batches[0] {
		w.rv++
		rv, key := strconv.Itoa(w.rv), writtenKey(n%10)
		if n > 9 {
			b.Ops = append(b.Ops, remove(key, rv))
			delete(w.want, key)
		} else {
			op := upsert(key, rv, storetest.ColorLabel, "red")
			b.Ops = append(b.Ops, op)
			w.want[key] = storetest.Sum(op.Object.(runtime.Object))
		}
		b.ResourceVersion = rv
	}
	w.batches = w.batches[1:]
	if _, w.err = w.c.Apply(context.Background(), b); w.err != nil {
		return false
	}
	got, err := viewOf(w.c)
	if err == nil && !maps.Equal(got, w.want) {
		err = fmt.Errorf("read %v, want %v", got, w.want)
	}
	red, err2 := w.c.IndexKeys(context.Background(), "color", "red")
	if err == nil {
		err = err2
	}
	for _, key := range red {
		if err == nil && w.want[key] == "" {
			err = fmt.Errorf("the index has %s, and there is %v", key, slices.Collect(maps.Keys(w.want)))
		}
	}
	w.err = err
	return err == nil
}
