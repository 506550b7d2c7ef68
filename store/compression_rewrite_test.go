package store_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// rewrite lists n pods, modified by change, with ReplaceOptions.Rewrite, and returns the number of reported changes.
func rewrite(t *testing.T, c *store.Collection, n int, change func(*corev1.Pod)) (changes int) {
	t.Helper()
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Rewrite: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	var page []runtime.Object
	for i := range n {
		pod := somePod(i)
		if change != nil {
			change(pod)
		}
		page = append(page, pod)
	}
	first, err := r.Page(t.Context(), page)
	if err != nil {
		t.Fatal(err)
	}
	last, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "9000"})
	if err == nil {
		err = store.StoreOf(c).Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(first.Changes) + len(last.Changes)
}

// TestRewriteChangesCompression checks that a list with ReplaceOptions.Rewrite compresses plain records, or
// decompresses compressed records if Compression is off, and reports no changes. Lists may hold back their changes
// until Commit, or be too large for that.
func TestRewriteChangesCompression(t *testing.T) {
	t.Run("held", func(t *testing.T) { testRewriteChangesCompression(t, false) })
	t.Run("shown", func(t *testing.T) { testRewriteChangesCompression(t, true) })
}

func testRewriteChangesCompression(t *testing.T, shown bool) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	c := openCompressed(t, s, store.NoCompression)
	mustList(t, c, 200)
	for round, test := range []struct {
		compression   store.Compression
		packed, dicts int
	}{{store.Zstd, 200, 1}, {store.Zstd, 200, 1}, {store.NoCompression, 0, 0}, {store.Zstd, 200, 1}} {
		mustEnd(t, c)
		c = openCompressed(t, s, test.compression)
		if shown {
			store.SetLimits(c, 1, store.CommitLimit(c))
		}
		before, written := nextSeq(t, c), round == 1
		if n := rewrite(t, c, 200, nil); n != 0 {
			t.Errorf("round %d: %d changes", round, n)
		}
		if wrote := nextSeq(t, c) - before; (wrote == 0) != written {
			t.Errorf("round %d: %d records were written", round, wrote)
		}
		if total, packed, dicts := compressionOf(t, c); total != 200 || packed != test.packed || dicts != test.dicts {
			t.Errorf("round %d: %d of %d, %d dictionaries", round, packed, total, dicts)
		}
		wantPods(t, c, 200, nil)
		wantSound(t, s)
	}
}

func nextSeq(t *testing.T, c *store.Collection) uint64 {
	t.Helper()
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.NextSeq
}

// TestRewriteReplacesTheDictionary checks that a list with ReplaceOptions.Rewrite builds a new dictionary if the
// objects differ much from the old dictionary's samples. The old dictionary goes with the last record that needs it.
func TestRewriteReplacesTheDictionary(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	c := openCompressed(t, s, store.Zstd)
	mustList(t, c, 200)
	old, err := dictionaries(c)
	if err != nil || len(old) != 1 {
		t.Fatal(old, err)
	}
	words := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 600)
	for i := range text {
		text[i] = byte('a' + words.IntN(26))
	}
	change := func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"padding": string(text) + strings.Repeat(pod.Name, 3)}
	}
	rewrite(t, c, 200, change)
	now, err := dictionaries(c)
	if err != nil || len(now) != 1 || string(now[0]) == string(old[0]) {
		t.Errorf("dictionaries %x, before %x, %v", now, old, err)
	}
	if total, packed, _ := compressionOf(t, c); total != 200 || packed != 200 {
		t.Errorf("%d of %d", packed, total)
	}
	wantPods(t, c, 200, change)
	wantSound(t, s)

	rewrite(t, c, 200, change)
	if again, err := dictionaries(c); err != nil || fmt.Sprintf("%x", again) != fmt.Sprintf("%x", now) {
		t.Errorf("dictionaries %x, before %x, %v", again, now, err)
	}
}
