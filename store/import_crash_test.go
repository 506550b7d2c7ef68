package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// childImport imports and removes a store without end, and prints the number of imports.
func childImport(path string) error {
	for n := 1; ; n++ {
		if n > 1 {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		if err := importPods(path); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// importPods imports a store of two collections of compactPods records, 10 kB each, in several transactions.
func importPods(path string) error {
	ctx := context.Background()
	i, err := store.NewImport(ctx, path, store.ImportOptions{Store: store.Options{Logger: &quiet,
		LockTimeout: 10 * time.Second}})
	if err != nil {
		return err
	}
	for _, id := range []entry.Identity{pods(), otherPods()} {
		if err := i.Begin(ctx, store.ImportCollection{Identity: id}); err != nil {
			return errors.Join(err, i.Abort())
		}
		for k := range compactPods {
			r := entry.Entry{Key: fmt.Sprintf("ns/pod-%04d", k), UID: fmt.Sprint(k), ResourceVersion: fmt.Sprint(k + 1),
				Encoding: "protobuf", Payload: bytes.Repeat([]byte{'y'}, 10_000)}
			if err := i.Add(ctx, r); err != nil {
				return errors.Join(err, i.Abort())
			}
		}
		if _, err := i.End(ctx, store.ImportState{ResourceVersion: "77", Complete: true}); err != nil {
			return errors.Join(err, i.Abort())
		}
	}
	return i.Commit(ctx)
}

// TestKilledWhileImporting checks that a process killed during an import leaves a complete store or none, and that the
// next open or import removes temporary files.
func TestKilledWhileImporting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(9, 10))
	kills := soaked(5, 200)
	whole, debris := 0, 0
	for kill := 0; kill < kills || debris == 0 && kill < 20*kills; kill++ {
		// Later kills follow until a kill leaves a temporary file.
		killChild(t, "import", path, time.Duration(random.IntN(250_000*(1+kill/kills)))*time.Microsecond)
		debris += min(len(disk.Beside(path, disk.SuffixNew)), 1)
		if _, err := os.Lstat(path); err == nil {
			whole++
			wantImported(t, path)
			wantNames(t, filepath.Dir(path), "store")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := importPods(path); err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		wantNames(t, filepath.Dir(path), "store")
		wantImported(t, path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if debris == 0 {
		t.Error("no kill came while a store was being made")
	}
	t.Logf("of %d kills %d left a store, %d debris", kills, whole, debris)
}

func wantImported(t *testing.T, path string) {
	t.Helper()
	s := mustOpen(t, path, store.Options{})
	if s.Quarantined() != "" {
		t.Fatal("a good file was moved aside")
	}
	wantSound(t, s)
	infos, err := s.Collections(t.Context())
	if err != nil || len(infos) != 2 {
		t.Fatalf("%+v, %v", infos, err)
	}
	for _, info := range infos {
		if info.Objects != compactPods || info.ResourceVersion != "77" || !info.Complete {
			t.Fatalf("%+v", info)
		}
	}
	mustClose(t, s)
}
