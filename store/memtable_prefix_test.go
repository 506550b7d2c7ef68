package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// pastStates are all states that a collection has had, by resourceVersion: storetest.Sum of each pod, by key.
type pastStates struct {
	rv     int
	states map[string]map[string]string
}

func newHistory() *pastStates {
	return &pastStates{rv: 1, states: map[string]map[string]string{"": {}, "1": {}}}
}

func (h *pastStates) now() map[string]string { return h.states[strconv.Itoa(h.rv)] }

// batch draws a random batch and adds the state after it to h.
func (h *pastStates) batch(rt *rapid.T) entry.Batch {
	state := maps.Clone(h.now())
	var b entry.Batch
	for range rapid.IntRange(0, 4).Draw(rt, "ops") {
		key := rapid.SampledFrom([]string{"a/x", "a/y", "a-b/x", "b/x", "b/x.y", "c/z"}).Draw(rt, "key")
		h.rv++
		if rapid.IntRange(0, 3).Draw(rt, "op") == 0 {
			b.Ops = append(b.Ops, remove(key, strconv.Itoa(h.rv)))
			delete(state, key)
			continue
		}
		color := rapid.SampledFrom([]string{"", "red", "green", "blue", "red.green"}).Draw(rt, "color")
		op := upsert(key, strconv.Itoa(h.rv), storetest.ColorLabel, color)
		b.Ops = append(b.Ops, op)
		state[key] = storetest.Sum(storetest.Pod(key, "uid-"+key, strconv.Itoa(h.rv), storetest.ColorLabel, color))
	}
	h.rv++
	b.ResourceVersion = strconv.Itoa(h.rv)
	h.states[b.ResourceVersion] = state
	return b
}

// reading has the methods common to *store.Collection and *store.View.
type reading interface {
	Info(ctx context.Context) (entry.Info, error)
	Keys(ctx context.Context) ([]string, error)
	IndexKeys(ctx context.Context, index, value string) ([]string, error)
}

// wantPrefix returns the resourceVersion of r. It fails the test unless r has exactly the past state of that
// resourceVersion. It repeats the read if a background commit ran meanwhile.
func (h *pastStates) wantPrefix(rt *rapid.T, r reading) int {
	ctx := context.Background()
	for {
		info, err := r.Info(ctx)
		if err != nil {
			rt.Fatal(err)
		}
		problem := h.notPrefix(ctx, r, info)
		if after, err := r.Info(ctx); err == nil && after.ResourceVersion != info.ResourceVersion {
			continue
		}
		if problem != "" {
			rt.Fatal(problem)
		}
		rv, _ := strconv.Atoi(info.ResourceVersion)
		return rv
	}
}

// notPrefix describes the difference between r and the past state at info's resourceVersion; "" for no difference.
func (h *pastStates) notPrefix(ctx context.Context, r reading, info entry.Info) string {
	state, known := h.states[info.ResourceVersion]
	keys, err := r.Keys(ctx)
	if err != nil || !known || !slices.Equal(keys, slices.Sorted(maps.Keys(state))) || info.Objects != len(state) {
		return fmt.Sprintf("at %q (%v) there are %q, %v, and %d objects; want %q", info.ResourceVersion, known, keys, err,
			info.Objects, state)
	}
	for _, color := range []string{"red", "green", "blue"} {
		var want []string
		for key, sum := range state {
			if _, colors, _ := strings.Cut(sum, "color="); slices.Contains(strings.Split(colors, "."), color) {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		if got, err := r.IndexKeys(ctx, "color", color); err != nil || !slices.Equal(got, want) {
			return fmt.Sprintf("at %s %s are %q, %v; want %q", info.ResourceVersion, color, got, err, want)
		}
	}
	return ""
}

func (h *pastStates) wantObjects(rt *rapid.T, c *store.Collection) {
	objs, err := c.List(context.Background())
	if err != nil {
		rt.Fatal(err)
	}
	info, err := c.Info(context.Background())
	if err != nil {
		rt.Fatal(err)
	}
	state := h.states[info.ResourceVersion]
	var want []string
	for _, key := range slices.Sorted(maps.Keys(state)) {
		want = append(want, state[key])
	}
	var got []string
	for _, obj := range objs {
		got = append(got, storetest.Sum(obj))
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("at %s there are %q, want %q", info.ResourceVersion, got, want)
	}
}

// TestFileIsAPrefix checks that at any time the file has exactly the past state of its resourceVersion, which never
// decreases, and that readers of the collection see the newest state.
func TestFileIsAPrefix(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, byHand())
	g := store.GateCommits(s)
	rapid.Check(t, func(rt *rapid.T) {
		checkPrefix(t, rt, s, g, path)
		if err := s.Drop(context.Background(), storetest.Pods); err != nil {
			rt.Fatal(err)
		}
	})
}

func checkPrefix(t *testing.T, rt *rapid.T, s *store.Store, g *hook.Gate, path string) {
	ctx := context.Background()
	store.NoSync(s)
	o := store.CollectionOptions{Residency: store.None, Indexers: byNamespaceAndColor}
	if rapid.Bool().Draw(rt, "compressed") {
		o.Compression = store.Zstd
	}
	c := openPodsWith(t, s, o)
	defer c.Close()
	relist(t, c, store.ReplaceOptions{}, "1")
	h := newHistory()
	view, err := s.ViewWith(ctx, storetest.Pods, storetest.PodCodec())
	if err != nil {
		rt.Fatal(err)
	}
	inFile, finish := 1, func() error { return nil }
	rt.Repeat(map[string]func(*rapid.T){
		"apply": func(rt *rapid.T) {
			if _, err := c.Apply(ctx, h.batch(rt)); err != nil {
				rt.Fatal(err)
			}
		},
		"commit": func(rt *rapid.T) {
			_ = finish()
			if err := s.Flush(ctx); err != nil {
				rt.Fatal(err)
			}
			if rv := h.wantPrefix(rt, view); rv != h.rv {
				rt.Fatalf("the file is at %d after a commit of %d", rv, h.rv)
			}
		},
		"fail": func(rt *rapid.T) {
			_ = finish()
			g.Fail(full)
			_ = s.Flush(ctx)
			g.Fail(nil)
		},
		"hang": func(rt *rapid.T) {
			_ = finish()
			if s.Pending() > 0 {
				finish = hang(t, s, g)
			}
		},
		"lose sync": func(rt *rapid.T) {
			_ = finish()
			if s.Pending() == 0 || rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
				return
			}
			g.After(func() error { return syscall.EIO })
			_ = s.Flush(ctx)
			g.After(nil)
			if err := s.Flush(ctx); err != nil {
				rt.Fatal(err)
			}
			store.NoSync(s)
		},
		"crash": func(rt *rapid.T) {
			// A copy takes several fsyncs, so it is rare.
			if rapid.IntRange(0, 3).Draw(rt, "seldom") == 0 {
				h.wantCopy(rt, path)
			}
		},
		"": func(rt *rapid.T) {
			if rv := h.wantPrefix(rt, c); rv != h.rv {
				rt.Fatalf("readers are at %d, want %d", rv, h.rv)
			}
			h.wantObjects(rt, c)
			rv := h.wantPrefix(rt, view)
			if rv < inFile {
				rt.Fatalf("the file went back from %d to %d", inFile, rv)
			}
			inFile = rv
		},
	})
	if err := finish(); err != nil {
		rt.Fatal(err)
	}
	storetest.Check(rt, s)
}

// wantCopy copies the file as a crash would leave it, and checks that the copy has one of the past states.
func (h *pastStates) wantCopy(rt *rapid.T, path string) {
	copied := path + ".copy"
	if err := copyFile(path, copied); err != nil {
		rt.Fatal(err)
	}
	s, err := store.Open(copied, byHand())
	if err != nil {
		rt.Fatal(err)
	}
	defer func() {
		s.Close()
		for _, name := range []string{copied, copied + ".opening"} {
			_ = os.Remove(name)
		}
	}()
	if s.Quarantined() != "" {
		rt.Fatalf("the copy is damaged")
	}
	storetest.Check(rt, s)
	c, err := s.Collection(context.Background(), storetest.Pods,
		store.CollectionOptions{Codec: storetest.PodCodec(), Indexers: byNamespaceAndColor})
	if err != nil {
		rt.Fatal(err)
	}
	defer c.Close()
	h.wantPrefix(rt, c)
	h.wantObjects(rt, c)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return out.Close()
}
