package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// session opens the collection of pods as a new process with these indexers would.
func session(t *testing.T, s *store.Store, indexers cache.Indexers, versions map[string]string) *store.Collection {
	t.Helper()
	c, err := s.Collection(context.Background(), storetest.Pods, store.CollectionOptions{
		Residency: store.None,
		Codec:     storetest.PodCodec(), Indexers: indexers, IndexVersions: versions,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func counting(fn cache.IndexFunc) (cache.IndexFunc, func() int) {
	var mu sync.Mutex
	calls := 0
	counted := func(obj any) ([]string, error) {
		mu.Lock()
		calls++
		mu.Unlock()
		return fn(obj)
	}
	return counted, func() int {
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
}

func fill(t *testing.T, c store.Interface, n int) {
	t.Helper()
	var items []entry.Op
	for i := range n {
		items = append(items, upsert(fmt.Sprintf("ns%d/pod%04d", i%3, i), fmt.Sprint(i+1), storetest.ColorLabel,
			[]string{"red", "green"}[i%2]))
	}
	relist(t, c, store.ReplaceOptions{}, fmt.Sprint(n+1), items...)
}

// TestIndexAddedLate checks that an index is complete when AddIndexers returns.
func TestIndexAddedLate(t *testing.T) {
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	store.NoSync(s)
	c := session(t, s, nil, nil)
	fill(t, c, 2500)
	before := infoOf(t, c)
	seq, _, _ := storedHeader(c, "ns1/pod0001")

	if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
		t.Fatal(err)
	}
	keys, err := c.IndexKeys(context.Background(), "color", "red")
	if err != nil || len(keys) != 1250 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	if !store.IndexReady(c, "color") {
		t.Error("not ready")
	}
	apply(t, c, "3000", upsert("ns0/pod0000", "3000", storetest.ColorLabel, "blue"), remove("ns2/pod0002", "3000"))
	for color, want := range map[string]int{"red": 1248, "green": 1250, "blue": 1} {
		if keys, err := c.IndexKeys(context.Background(), "color", color); err != nil || len(keys) != want {
			t.Errorf("%s: %d keys, %v; want %d", color, len(keys), err, want)
		}
	}
	if now, terms, _ := storedHeader(c, "ns1/pod0001"); len(terms["color"]) != 1 || now != seq {
		t.Errorf("header of a record that was indexed: sequence number %d, was %d; terms %v", now, seq, terms)
	}
	if info := infoOf(t, c); info.NextSeq != before.NextSeq+1 {
		t.Errorf("a build used %d sequence numbers; nothing happened to the objects", info.NextSeq-before.NextSeq-1)
	}
}

func TestIndexIsTrustedByVersion(t *testing.T) {
	for _, test := range []struct {
		name                     string
		version                  string
		wantReady                bool
		firstVersion, namedIndex string
	}{
		// Without a version the function may have changed, so the index is built again.
		{"no version", "", false, "", "color"},
		{"same version", "v1", true, "v1", "color"},
		{"other version", "v2", false, "v1", "color"},
		{"version given up", "", false, "v1", "color"},
		{"client-go's namespace index", "", true, "", cache.NamespaceIndex},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := storetest.Open(t, store.Options{})
			indexers := cache.Indexers{test.namedIndex: byNamespaceAndColor[test.namedIndex]}
			c := session(t, s, indexers, map[string]string{test.namedIndex: test.firstVersion})
			fill(t, c, 10)
			next := infoOf(t, c).NextSeq
			c.Close()

			// The index function blocks the build, so that the test sees which indexes are ready before the build has ended.
			hold := make(chan struct{})
			original := indexers[test.namedIndex]
			if test.namedIndex == "color" {
				indexers["color"] = func(obj any) ([]string, error) {
					<-hold
					return original(obj)
				}
			}
			c = session(t, s, indexers, map[string]string{test.namedIndex: test.version})
			if ready := store.IndexReady(c, test.namedIndex); ready != test.wantReady {
				t.Errorf("ready: %v, want %v", ready, test.wantReady)
			}
			close(hold)
			store.WaitBuilds(c)
			if !store.IndexReady(c, test.namedIndex) {
				t.Error("not ready in the end")
			}
			if now := infoOf(t, c).NextSeq; now != next {
				t.Errorf("next sequence number %d, was %d", now, next)
			}
		})
	}
}

// TestIndexRebuildMovesEntries checks that a new build of an index replaces all entries of an older index function.
func TestIndexRebuildMovesEntries(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	c := session(t, s, byNamespaceAndColor, nil)
	fill(t, c, 10)
	c.Close()
	upper := func(obj any) ([]string, error) {
		values, err := storetest.ByColor(obj)
		for i := range values {
			values[i] = strings.ToUpper(values[i])
		}
		return values, err
	}
	c = session(t, s, cache.Indexers{"color": upper}, nil)
	apply(t, c, "100", upsert("ns0/pod0000", "100", storetest.ColorLabel, "blue"))
	store.WaitBuilds(c)
	values, err := c.IndexValues(context.Background(), "color")
	if err != nil || !slices.Equal(values, []string{"BLUE", "GREEN", "RED"}) {
		t.Errorf("values %q, %v", values, err)
	}
}

// TestUnusedIndexIsRemoved checks that a stored index is removed after two starts that do not use it.
func TestUnusedIndexIsRemoved(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	versions := map[string]string{"color": "1"}
	c := session(t, s, byNamespaceAndColor, versions)
	fill(t, c, 10)
	c.Close()

	fn, calls := counting(storetest.ByColor)
	// This process adds the index only after it has opened the collection.
	c = session(t, s, nil, nil)
	if err := c.AddIndexers(context.Background(), cache.Indexers{"color": fn}, versions); err != nil {
		t.Fatal(err)
	}
	store.WaitBuilds(c)
	if !store.IndexReady(c, "color") || calls() != 0 {
		t.Errorf("ready %v after %d calls; nothing had happened that could make it wrong", store.IndexReady(c, "color"),
			calls())
	}
	c.Close()

	c = session(t, s, nil, nil)
	apply(t, c, "100", upsert("ns0/pod0000", "100", storetest.ColorLabel, "blue"), remove("ns1/pod0001", "100"))
	if names, err := indexBuckets(c); err != nil || !slices.Contains(names, "color") {
		t.Errorf("dropped at once: %q, %v", names, err)
	}
	if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
		t.Fatal(err)
	}
	keys, err := c.IndexKeys(context.Background(), "color", "blue")
	if err != nil || len(keys) != 1 {
		t.Errorf("blue right after it was added: %q, %v", keys, err)
	}
	store.WaitBuilds(c)
	c.Close()

	for range 2 {
		c = session(t, s, nil, nil)
		apply(t, c, "", upsert("ns0/pod0000", "101", storetest.ColorLabel, "red"))
		c.Close()
	}
	c = session(t, s, nil, nil)
	if names, err := indexBuckets(c); err != nil || len(names) != 0 {
		t.Errorf("still there: %q, %v", names, err)
	}
	// The records' headers still have the values of the removed index, which must not mislead a new index of that name.
	if err := c.AddIndexers(context.Background(), cache.Indexers{"color": storetest.ByColor}, nil); err != nil {
		t.Fatal(err)
	}
	apply(t, c, "", upsert("ns0/pod0003", "102", storetest.ColorLabel, "green"))
	store.WaitBuilds(c)
	for color, want := range map[string]int{"red": 5, "green": 4, "blue": 0} {
		if keys, err := c.IndexKeys(context.Background(), "color", color); err != nil || len(keys) != want {
			t.Errorf("%s: %q, %v; want %d", color, keys, err, want)
		}
	}
}

func TestIndexValuesOfAnyBytes(t *testing.T) {
	values := []string{"", "\x00", "\x00\x01", "\xff", "a", "a\x00", "a\x00b", "ab", strings.Repeat("long", 10000)}
	slices.Sort(values)
	keyOf := func(n int) string { return fmt.Sprintf("a/%d", n) }
	fn := func(obj any) ([]string, error) { // each object has one index value of its own and one that all objects have
		n, err := strconv.Atoi(obj.(*corev1.Pod).Name)
		return []string{values[n], "all"}, err
	}
	s := storetest.Open(t, store.Options{})
	c := openPodsAs(t, s, cache.Indexers{"odd": fn}, store.None)
	var ops []entry.Op
	for n := range values {
		ops = append(ops, upsert(keyOf(n), "1"))
	}
	apply(t, c, "2", ops...)
	for _, where := range []string{"pending", "in the file"} {
		got, err := c.IndexValues(context.Background(), "odd")
		if want := append(slices.Clone(values), "all"); err != nil ||
			!slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: values %.80q, %v", where, got, err)
		}
		for n, value := range values {
			keys, err := c.IndexKeys(context.Background(), "odd", value)
			if err != nil || !slices.Equal(keys, []string{keyOf(n)}) {
				t.Errorf("%s: %.20q: %q, %v", where, value, keys, err)
			}
		}
		if keys, err := c.IndexKeys(context.Background(), "odd", "all"); err != nil || len(keys) != len(values) {
			t.Errorf("%s: all: %q, %v", where, keys, err)
		}
		flush(t, s)
	}
	for n := range ops {
		ops[n] = remove(keyOf(n), "3")
	}
	apply(t, c, "3", ops...)
	for range 2 {
		if got, err := c.IndexValues(context.Background(), "odd"); err != nil || len(got) != 0 {
			t.Errorf("values of nothing: %.80q, %v", got, err)
		}
		flush(t, s)
	}
}

// TestIndexAddedWhileABatchIsIndexed checks that an index function, which runs without locks, may itself add an index,
// and that the new index has the objects of the current batch.
func TestIndexAddedWhileABatchIsIndexed(t *testing.T) {
	ctx := context.Background()
	for _, list := range []bool{false, true} {
		t.Run(fmt.Sprintf("list=%v", list), func(t *testing.T) {
			s := storetest.Open(t, store.Options{})
			memory, err := memory.New(storetest.Pods, store.CollectionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []store.Interface{openPods(t, s, nil), memory} {
				var once sync.Once
				adding := func(obj any) ([]string, error) {
					once.Do(func() {
						if err := c.AddIndexers(context.Background(), cache.Indexers{"name": storetest.ByName}, nil); err != nil {
							t.Error(err)
						}
					})
					return nil, nil
				}
				if err := c.AddIndexers(context.Background(), cache.Indexers{"adding": adding}, nil); err != nil {
					t.Fatal(err)
				}
				if list {
					relist(t, c, store.ReplaceOptions{}, "2", upsert("a/x", "1"))
				} else {
					apply(t, c, "2", upsert("a/x", "1"))
				}
				if keys, err := c.IndexKeys(ctx, "name", "x"); err != nil || len(keys) != 1 {
					t.Errorf("%T: %q, %v", c, keys, err)
				}
			}
		})
	}
}

func TestNoIndex(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{}), nil)
	if _, err := c.ByIndex(context.Background(), "none", "x"); !errors.Is(err, store.ErrNoIndex) {
		t.Errorf("ByIndex: %v", err)
	}
	if err := c.AddIndexers(context.Background(), cache.Indexers{"": storetest.ByColor}, nil); err == nil {
		t.Error("an index without a name was added")
	}
	if err := c.AddIndexers(context.Background(), cache.Indexers{"nil": nil}, nil); err == nil {
		t.Error("an index without a function was added")
	}
}

func TestCloseEndsABuild(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	c := session(t, s, nil, nil)
	fill(t, c, 10)
	c.Close()
	started, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := func(any) ([]string, error) {
		once.Do(func() { close(started) })
		<-hold
		return nil, nil
	}
	c = session(t, s, cache.Indexers{"slow": slow}, nil)
	c.BuildIndexes()
	<-started
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	close(hold)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	c.Close()
}
