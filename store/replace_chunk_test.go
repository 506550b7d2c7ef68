package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestOpaqueListInterrupted checks that MustRelist is set while the collection is a mixture of two lists, even if
// resourceVersions cannot be compared (issue 37).
func TestOpaqueListInterrupted(t *testing.T) {
	c := openPods(t, storetest.Open(t, store.Options{Logger: &quiet}), byNamespaceAndColor)
	var before, items []entry.Op
	for n := range 20 {
		before = append(before, upsert(fmt.Sprintf("a/%02d", n), "x1"))
		items = append(items, upsert(fmt.Sprintf("c/%02d", n), "x2"))
	}
	relist(t, c, store.ReplaceOptions{}, "x1", before...)
	if info := infoOf(t, c); info.MustRelist != entry.MustRelistOpaque || len(info.Notes(time.Now(), false)) > 0 {
		t.Errorf("before: %+v", info)
	}
	store.SetLimits(c, 1<<20, 600)
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Page(t.Context(), podsOf(items...)); err != nil {
		t.Fatal(err)
	}
	for more, want := true, store.MustRelistInterrupted; more; {
		res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "x2"})
		if err != nil {
			t.Fatal(err)
		}
		if more = res.More; !more {
			want = entry.MustRelistOpaque
		}
		if info := infoOf(t, c); info.MustRelist != want {
			t.Errorf("more %t: %+v", more, info)
		}
	}
}

// beginChunked begins a list of c/00 to c/19, instead of a/00 to a/19, whose commit takes several calls.
func beginChunked(t *testing.T, c *store.Collection) store.Replacement {
	t.Helper()
	items := []entry.Op{upsert("b/0", "50")}
	before := []entry.Op{upsert("b/0", "1")}
	for n := range 20 {
		before = append(before, upsert(fmt.Sprintf("a/%02d", n), fmt.Sprint(n+2)))
		items = append(items, upsert(fmt.Sprintf("c/%02d", n), fmt.Sprint(n+30)))
	}
	relist(t, c, store.ReplaceOptions{}, "25", before...)
	store.SetLimits(c, 1<<20, 600)
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Page(context.Background(), podsOf(items...)); err != nil {
		t.Fatal(err)
	}
	return r
}

func chunkedChanges() (want []string) {
	for n := range 20 {
		want = append(want, fmt.Sprintf("Deleted a/%02d", n))
	}
	want = append(want, "Updated b/0")
	for n := range 20 {
		want = append(want, fmt.Sprintf("Added c/%02d", n))
	}
	return want
}

func names(changes []entry.Change) (out []string) {
	for _, ch := range changes {
		out = append(out, fmt.Sprint(ch.Type, " ", ch.Key))
	}
	return out
}

// TestCommitInChunks checks that each call of Replacement.Commit returns its changes, even if the disk fails.
func TestCommitInChunks(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, store.Options{Logger: &quiet})
	c := openPods(t, s, byNamespaceAndColor)
	r := beginChunked(t, c)
	failCommits(s, func() error { return syscall.ENOSPC })
	var changes []entry.Change
	steps := 0
	for more := true; more; steps++ {
		res, err := r.Commit(ctx, entry.Batch{ResourceVersion: "60"})
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, res.Changes...)
		more = res.More
		if info := infoOf(t, c); more && (info.ResourceVersion != "25" || !strings.Contains(info.MustRelist, "interrupted") ||
			info.Objects != len(list(t, c))) {
			t.Errorf("half way: %+v", info)
		}
		if !more {
			continue
		}
		if _, err := c.Apply(ctx, entry.Batch{ResourceVersion: "61"}); !errors.Is(err, store.ErrReplacing) {
			t.Errorf("Apply half way: %v", err)
		}
	}
	wantStrings(t, "changes", names(changes), chunkedChanges()...)
	if steps < 10 {
		t.Errorf("%d steps", steps)
	}
	if info := infoOf(t, c); info.MustRelist != "" || info.Objects != 21 {
		t.Errorf("in the end: %+v", info)
	}
	failCommits(s, func() error { return nil })
	flush(t, s)
}

// TestCommitInterrupted checks that MustRelist is set after a crash or an Abort between two calls of
// Replacement.Commit, and that the next list reports the remaining changes.
func TestCommitInterrupted(t *testing.T) {
	for transactions := range 12 {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d crash=%v", transactions, crash), func(t *testing.T) {
				testCommitInterrupted(t, transactions, crash)
			})
		}
	}
}

func testCommitInterrupted(t *testing.T, transactions int, crash bool) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, store.Options{})
	c := openPods(t, s, byNamespaceAndColor)
	r := beginChunked(t, c)
	var changes []entry.Change
	for range transactions {
		res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "60"})
		if err != nil || !res.More {
			t.Fatalf("more %v: %v", res.More, err)
		}
		changes = append(changes, res.Changes...)
	}
	if crash {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = storetest.OpenFile(t, path, store.Options{})
		c = openPods(t, s, byNamespaceAndColor)
	} else {
		r.Abort()
	}
	if info := infoOf(t, c); (info.MustRelist != "") != (transactions > 0) || info.Objects != len(list(t, c)) {
		t.Errorf("after %d transactions: %+v", transactions, info)
	}
	items := []entry.Op{upsert("b/0", "50")}
	for n := range 20 {
		items = append(items, upsert(fmt.Sprintf("c/%02d", n), fmt.Sprint(n+30)))
	}
	changes = append(changes, relist(t, c, store.ReplaceOptions{}, "60", items...)...)
	wantStrings(t, "changes", names(changes), chunkedChanges()...)
	if info := infoOf(t, c); info.MustRelist != "" || info.ResourceVersion != "60" || info.Objects != 21 {
		t.Errorf("in the end: %+v", info)
	}
}

// TestCommitInterruptedUnderAMark checks that aborting the commit of a list sets MustRelist to MustRelistInterrupted
// although MustRelist had another reason. Otherwise the next list would compare only metadata, although the collection
// is a mixture of two lists (issue 37).
func TestCommitInterruptedUnderAMark(t *testing.T) {
	s := storetest.Open(t, store.Options{Logger: &quiet})
	c := openPods(t, s, byNamespaceAndColor)
	r := beginChunked(t, c)
	r.Abort()
	for _, rewrite := range []bool{true, false} {
		if err := c.SetMustRelist(t.Context(), "for a test"); err != nil {
			t.Fatal(err)
		}
		r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Rewrite: rewrite})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "60"}); err != nil || !res.More {
			t.Fatalf("more %v: %v", res.More, err)
		}
		r.Abort()
		want := store.MustRelistInterrupted
		// The older reason stays: it also makes the next list rewrite every object.
		if rewrite {
			want = "for a test"
		}
		if info := infoOf(t, c); info.MustRelist != want {
			t.Errorf("rewrites %v: %q", rewrite, info.MustRelist)
		}
	}
}

// TestCommitIsBounded checks that one call of Replacement.Commit returns a bounded part of the changes when all objects
// of a large collection are added, deleted or replaced.
func TestCommitIsBounded(t *testing.T) {
	t.Parallel()
	const objects, bound = 2000, 64 << 10
	s := storetest.Open(t, store.AtOnce(store.Options{}))
	store.NoSync(s)
	codec := storetest.PodCodec()
	for name, kind := range map[string]struct{ before, after string }{
		"all are new": {"", "x"}, "all are gone": {"x", ""}, "all are replaced": {"x", "y"},
	} {
		for _, held := range []int{1 << 30, 64 << 10} {
			t.Run(fmt.Sprintf("%s holding %d", name, held), func(t *testing.T) {
				c, err := s.Collection(t.Context(), storetest.Pods, store.CollectionOptions{Residency: store.None, Codec: codec})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					c.Close()
					if err := s.Drop(context.Background(), storetest.Pods); err != nil {
						t.Error(err)
					}
				}()
				state := func(value string) (items []entry.Op) {
					for n := 0; value != "" && n < objects; n++ {
						items = append(items, entry.Op{Object: storetest.Pod(fmt.Sprintf("a/%05d", n), value, fmt.Sprint(n+1))})
					}
					return items
				}
				relist(t, c, store.ReplaceOptions{}, "1", state(kind.before)...)
				store.SetLimits(c, held, bound)
				r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Abort()
				total := 0
				for page := range slices.Chunk(state(kind.after), 700) {
					res, err := r.Page(t.Context(), podsOf(page...))
					if err != nil {
						t.Fatal(err)
					}
					total += len(res.Changes)
				}
				for more := true; more; {
					res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "2"})
					if err != nil {
						t.Fatal(err)
					}
					more = res.More
					total += len(res.Changes)
					if size := encodedSize(t, codec, res.Changes); size > bound+1000 {
						t.Fatalf("%d changes at once, of %d bytes", len(res.Changes), size)
					}
				}
				if total != objects {
					t.Errorf("%d changes", total)
				}
			})
		}
	}
}

func encodedSize(t *testing.T, codec codec.Codec, changes []entry.Change) (size int) {
	t.Helper()
	for _, ch := range changes {
		for _, obj := range []runtime.Object{ch.Old, ch.New} {
			if obj == nil {
				continue
			}
			data, err := codec.Append(nil, obj)
			if err != nil {
				t.Fatal(err)
			}
			size += len(data)
		}
	}
	return size
}

// TestCommitLimits checks that one call of Replacement.Commit returns fewer bytes if objects are not in memory.
func TestCommitLimits(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	for _, test := range []struct {
		residency store.Residency
		want      int
	}{{store.None, 16 << 20}, {store.All, 256 << 20}} {
		c, err := s.Collection(t.Context(), storetest.Pods,
			store.CollectionOptions{Residency: test.residency, Codec: storetest.PodCodec()})
		if err != nil {
			t.Fatal(err)
		}
		if got := store.CommitLimit(c); got != test.want {
			t.Errorf("%s: %d bytes, want %d", test.residency, got, test.want)
		}
		c.Close()
	}
}
