package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store"
)

// filePageSize is the page size of the files that mustOpen creates. TestOtherPageSize changes it.
var filePageSize = defaultPageSize

// defaultPageSize is the page size of files that package store creates.
const defaultPageSize = 4 << 10

// every is the sampling rate of test cases, which TestOtherPageSize sets: a test runs one of that many cases.
var every = 1

// scaled converts a size in bytes for the default page size to the same number of pages of the tested size.
func scaled(n int) int { return n * filePageSize / defaultPageSize }

// otherPageSize is bbolt's default page size on macOS.
const otherPageSize = 16 << 10

// TestOtherPageSize repeats all tests that damage or copy files, with another page size: all readers of pages must use
// the file's page size. bbolt's default is the system's, from 4 KiB to 64 KiB, and files move between systems.
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
		{"Salvage", TestSalvage},
		{"CopyAfterFailedSync", TestCopyAfterFailedSync},
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

// TestPageSizeOfAFile checks that a file keeps its page size until Compact, which uses the default page size.
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

// soaked returns the argument soak if LARDER_SOAK=1, and test otherwise.
func soaked(test, soak int) int {
	if os.Getenv("LARDER_SOAK") != "" {
		return soak
	}
	return test
}
