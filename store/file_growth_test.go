package store_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestFileDoesNotGrow checks that the file reaches a steady size when each commit updates 3 in 20 of the objects, of
// about 2 KB each: hardly more free pages than after the first commits, and at most 1.5 times its compacted size.
// LARDER_SOAK=1 doubles the objects and makes 10 million updates.
//
// The freelist has several pages here, and each commit needs as many contiguous free pages. With bbolt's
// FreelistMapType bbolt found none, and the file grew (issue 16, A14).
func TestFileDoesNotGrow(t *testing.T) {
	t.Parallel()
	f := updatesOf(t, soaked(10_000, 20_000), soaked(120_000, 10_000_000), 1500, 400)
	if 2*f.total > 3*f.compacted {
		t.Errorf("the file has %d bytes, more than 1.5 times the %d that it has when it is compacted", f.total, f.compacted)
	}
}

// TestFileOfSmallObjects checks the bounds of docs/adr/0006 for three or four objects in a leaf page: a commit of 3 in
// 20 objects changes at most half of the leaves (issue 37, A.18). LARDER_SOAK=1 makes 2 million updates of 20,000
// objects.
func TestFileOfSmallObjects(t *testing.T) {
	t.Parallel()
	f := updatesOf(t, soaked(5_000, 20_000), soaked(45_000, 2_000_000), 550, 600)
	if f.free > (f.total-f.free)/2 || f.total > 2*f.compacted {
		t.Errorf("the file has %d bytes, %d of them free, and %d when it is compacted", f.total, f.free, f.compacted)
	}
}

// fileSizes are the sizes in bytes of a file, its free pages and its compacted copy.
type fileSizes struct{ total, free, compacted int64 }

// updatesOf updates 3 in 20 objects in each commit. It fails the test if the file has more free pages at the end than
// after the first few commits. Objects have from least to least + spread bytes.
func updatesOf(t *testing.T, objects, updates, least, spread int) fileSizes {
	t.Helper()
	perCommit := 3 * objects / 20
	commits := updates / perCommit
	warmUp := min(50, commits/6)
	random := rand.New(rand.NewPCG(16, 14))
	noise := noiseOf(random, 64<<10)
	s := storetest.Open(t, store.AtOnce(store.Options{Logger: &quiet}))
	store.NoSync(s)
	c := openPods(t, s, nil)
	rv := 0
	write := func(numbers []int) {
		ops := make([]entry.Op, len(numbers))
		for i, n := range numbers {
			rv++
			pod := storetest.Pod(fmt.Sprintf("ns/pod-%05d", n), fmt.Sprint("uid-", n), strconv.Itoa(rv))
			size, from := least+random.IntN(spread), random.IntN(len(noise)-least-spread)
			pod.Annotations = map[string]string{"body": noise[from : from+size]}
			ops[i] = entry.Op{Object: pod}
		}
		apply(t, c, strconv.Itoa(rv), ops...)
	}
	all := make([]int, objects)
	for n := range all {
		all[n] = n
	}
	write(all)
	var warm int64
	for n := range commits {
		if n == warmUp {
			_, warm = sizeOf(t, s)
		}
		write(random.Perm(objects)[:perCommit])
	}
	total, free := sizeOf(t, s)
	compacted, err := s.Compact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commits of %d updates: the file has %.1f MB, %.1f when it is compacted", commits, perCommit,
		float64(total)/1e6, float64(compacted.After)/1e6)
	t.Logf("%.1f MB are free, %.1f after %d commits", float64(free)/1e6, float64(warm)/1e6, warmUp)
	if 100*free > 105*warm {
		t.Errorf("%d bytes are free, of %d after %d commits: the file grows", free, warm, warmUp)
	}
	return fileSizes{total, free, compacted.After}
}

func sizeOf(t *testing.T, s *store.Store) (total, free int64) {
	t.Helper()
	total, free, err := s.Size()
	if err != nil {
		t.Fatal(err)
	}
	return total, free
}

// noiseOf returns n characters that do not compress.
func noiseOf(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + random.IntN(64))
	}
	return string(b)
}
