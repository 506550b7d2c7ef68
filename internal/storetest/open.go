package storetest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/store"
)

// Open opens a store in a temporary directory. At the end of the test the store is checked and closed.
func Open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	return OpenFile(t, filepath.Join(t.TempDir(), "larder.db"), o)
}

// OpenFile opens a store at path. At the end of the test the store is checked and closed, unless the test has closed
// it.
func OpenFile(t testing.TB, path string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := s.Size(); err == nil {
			Check(t, s)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close %s: %v", path, err)
		}
	})
	return s
}

// Failer is the part of testing.TB that rapid.T implements too.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Check fails the test if Store.Check finds a problem.
func Check(t Failer, s *store.Store) {
	t.Helper()
	report, err := s.Check(context.Background())
	if err != nil {
		t.Fatalf("check %s: %v", s.Path(), err)
	}
	for i, problem := range report.Problems {
		if i == len(report.Problems)-1 || i == 20 {
			t.Fatalf("check %s: %d problems, such as: %s", s.Path(), len(report.Problems), problem)
		}
	}
}
