package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

func TestOpenByPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.larder")
	want := small()
	data := want.bytes(t, smallBlocks)
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(data)
	f, err := snapshot.Open(path, snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want.check(t, readFile(t, f))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	write(data[:len(data)-100])
	if _, err := snapshot.Open(path, snapshot.OpenOptions{}); !errors.Is(err, snapshot.ErrDamaged) ||
		!strings.HasPrefix(err.Error(), path+": ") ||
		!strings.Contains(err.Error(), "it was cut short, or is still being written") {
		t.Error(err)
	}
	write([]byte("something else"))
	for _, p := range []string{path, filepath.Dir(path), path + ".none"} {
		if _, err := snapshot.Open(p, snapshot.OpenOptions{}); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestNoSuchCollection(t *testing.T) {
	f := fileOf(t, small().collections...)
	_, _, err := f.Get(t.Context(), identityOf("nothing"), "a")
	if !errors.Is(err, snapshot.ErrNoCollection) || !strings.Contains(err.Error(), "nothing.v1") {
		t.Error(err)
	}
}

// TestFileConcurrently reads one File in many goroutines, so that the race detector can find unguarded memory.
func TestFileConcurrently(t *testing.T) {
	want := small()
	f := fileOf(t, want.collections...)
	pods := want.collections[0]
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				for _, r := range pods.records {
					if got, ok, err := f.Get(t.Context(), pods.collection.Identity, r.Key); err != nil || !ok || !sameRecord(got, r) {
						t.Errorf("%v, %v", ok, err)
						return
					}
				}
				if err := f.Records(t.Context(), pods.collection.Identity,
					func(entry.Entry) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestCallbackErrors checks that Records returns the callback's error unchanged, even a DamageError.
func TestCallbackErrors(t *testing.T) {
	want := small()
	f := fileOf(t, want.collections...)
	for _, failed := range []error{errDisk, &snapshot.DamageError{Reason: "another file"}} {
		n := 0
		err := f.Records(t.Context(), identityOf("pods"), func(entry.Entry) error { n++; return failed })
		if err != failed || n != 1 { //nolint:errorlint // the callback's error must be returned without a wrapper
			t.Errorf("%v after %d records", err, n)
		}
	}
}
