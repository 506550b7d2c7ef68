package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store"
)

// filePageSize is that of the files that mustOpen makes. TestOtherPageSize changes it.
var filePageSize = defaultPageSize

// defaultPageSize is that of the files that the program makes.
const defaultPageSize = 4 << 10

// every is how many of the cases that a test would try it tries: one in so many. TestOtherPageSize, which runs tests
// again, changes it.
var every = 1

// scaled is a number of bytes that is as many pages, whatever their size.
func scaled(n int) int { return n * filePageSize / defaultPageSize }

// otherPageSize is what bbolt would choose on a Mac.
const otherPageSize = 16 << 10

// TestOtherPageSize runs every test that damages files, or copies them, on files of another page size: whoever reads
// pages takes their size from the file. bbolt by itself makes files with the pages of the system, from
// 4 KiB to 64 KiB, and files move between systems. With LARDER_SOAK=1 it tries as many cases as those tests.
func TestOtherPageSize(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"Killed", TestKilled},
		{"FlippedBits", TestFlippedBits},
		{"Wrecked", TestWrecked},
		{"RootPage", TestRootPage},
		{"MarkLeftBehind", TestMarkLeftBehind},
		{"VerifyAfterUncleanClose", TestVerifyAfterUncleanClose},
		{"CheckFindsPages", TestCheckFindsPages},
		{"Cycle", TestCycle},
		{"Circle", TestCircle},
		{"FreelistWithAPageInUse", TestFreelistWithAPageInUse},
		{"FaultWhileOpening", TestFaultWhileOpening},
		{"FileChangedWhileOpen", TestFileChangedWhileOpen},
		{"StuckLock", TestStuckLock},
		{"Written", TestWritten},
		{"RebuildAfterDamage", TestRebuildAfterDamage},
		{"RebuildAfterFailedSync", TestRebuildAfterFailedSync},
		{"RebuildEndsLists", TestRebuildEndsLists},
		{"RebuildWithinACommit", TestRebuildWithinACommit},
		{"Compact", TestCompact},
		{"CompactAtPath", TestCompactAtPath},
		{"CompactRefuses", TestCompactRefuses},
	} {
		t.Run(test.name, func(t *testing.T) {
			filePageSize, every = otherPageSize, 6
			if os.Getenv("LARDER_SOAK") != "" {
				every = 1
			}
			defer func() { filePageSize, every = defaultPageSize, 1 }()
			test.run(t)
		})
	}
}

// TestPageSizeOfAFile: a file keeps its page size until it is written anew, which gives it that of the program.
func TestPageSizeOfAFile(t *testing.T) {
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 64 << 10} {
		path := filepath.Join(t.TempDir(), "store")
		s := mustOpen(t, path, store.WithPageSize(store.Options{}, size))
		mustList(t, mustCollection(t, s, pods()), 100)
		mustClose(t, s)
		s = mustOpen(t, path, store.Options{})
		many := mustCollection(t, s, pods())
		mustList(t, many, 200)
		if n := pageSizeOf(t, path); n != size {
			t.Errorf("pages of %d bytes, want %d", n, size)
		}
		if _, err := s.Compact(t.Context()); err != nil {
			t.Error(err)
		}
		if n := pageSizeOf(t, path); n != defaultPageSize {
			t.Errorf("pages of %d bytes after Compact", n)
		}
		wantUsable(t, s, many)
	}
}

func pageSizeOf(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := boltcheck.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pages.PageSize
}

// soaked is how many rounds a test makes: so many in make test, or in make soak.
func soaked(test, soak int) int {
	if os.Getenv("LARDER_SOAK") != "" {
		return soak
	}
	return test
}
