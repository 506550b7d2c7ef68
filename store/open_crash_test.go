package store_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// The child process of these tests commits numbered transactions to a bucket outside the collections. Transaction n
// stores keys derived from n, deletes the keys derived from n-2, and stores n. So n determines the contents of the
// bucket.

const crashKeys = 40

func crashKey(n uint64, i int) []byte { return fmt.Appendf(nil, "%02d/%d", i, n) }

func crashStep(tx *bolt.Tx) (n uint64, err error) {
	b, err := tx.CreateBucketIfNotExists([]byte("chain"))
	if err != nil {
		return 0, err
	}
	if at := b.Get([]byte("n")); at != nil {
		n = binary.BigEndian.Uint64(at)
	}
	n++
	for i := range crashKeys {
		if err := b.Put(crashKey(n, i), binary.BigEndian.AppendUint64(make([]byte, 200), n)); err != nil {
			return 0, err
		}
		if n > 2 {
			if err := b.Delete(crashKey(n-2, i)); err != nil {
				return 0, err
			}
		}
	}
	return n, b.Put([]byte("n"), binary.BigEndian.AppendUint64(nil, n))
}

// crashState returns the number of the last transaction, and fails if the bucket's contents do not belong to it.
func crashState(s *store.Store) (n uint64, err error) {
	err = store.ViewFile(context.Background(), s, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("chain"))
		if b == nil {
			return nil
		}
		n = binary.BigEndian.Uint64(b.Get([]byte("n")))
		want := map[string]bool{"n": true}
		for m := max(n, 2) - 1; m <= n; m++ {
			for i := range crashKeys {
				want[string(crashKey(m, i))] = true
			}
		}
		err := b.ForEach(func(k, _ []byte) error {
			if !want[string(k)] {
				return fmt.Errorf("at transaction %d there is %q", n, k)
			}
			delete(want, string(k))
			return nil
		})
		if err == nil && len(want) > 0 {
			err = fmt.Errorf("at transaction %d, %d keys are missing", n, len(want))
		}
		return err
	})
	return n, err
}

// childCrash opens, writes and closes without end, and prints the number of each committed transaction.
func childCrash(path string) error {
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(time.Now().UnixNano())))
	for {
		s, err := store.Open(path, store.Options{Logger: &quiet, LockTimeout: 10 * time.Second})
		if err != nil {
			return err
		}
		if name := s.Quarantined(); name != "" {
			return fmt.Errorf("a good file was moved aside as %s", name)
		}
		for range random.IntN(20) {
			var n uint64
			err := store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
				n, err = crashStep(tx)
				return err
			})
			if err != nil {
				return err
			}
			fmt.Println(n)
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
}

// TestKilled kills a process that opens, writes and closes at random moments. The store must open without being moved
// aside, and have all committed transactions.
func TestKilled(t *testing.T) {
	kills := soaked(20, 480) / every
	path := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(7, 8))
	marks, last := 0, uint64(0)
	for kill := range kills {
		if kill%10 == 9 {
			path, last = filepath.Join(t.TempDir(), "store"), 0
		}
		said := killChild(t, "crash", path, time.Duration(random.IntN(25_000))*time.Microsecond)
		marks += min(len(markOf(t, path)), 1)
		s, err := store.Open(path, store.Options{Logger: &quiet})
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if s.Quarantined() != "" {
			t.Fatalf("kill %d: a good file was moved aside as %s", kill, s.Quarantined())
		}
		n, err := crashState(s)
		// The killed process may have committed a last transaction without printing its number.
		if last = max(last, said); err != nil || n != last && n != last+1 {
			t.Fatalf("kill %d: the child said %d, the store has %d: %v", kill, last, n, err)
		}
		last = n
		wantPages(t, s)
		mustClose(t, s)
		for _, name := range filesIn(t, filepath.Dir(path)) {
			if name != "store" {
				t.Fatalf("kill %d: %s is left", kill, name)
			}
		}
	}
	t.Logf("%d of %d kills came while the store was being opened", marks, kills)
}

// markOf returns the contents of the ".opening" file that a process left beside the store, or "".
func markOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path + disk.SuffixOpening)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// killChild starts a child, kills it some time after its first output, and returns the last number that it printed.
func killChild(t *testing.T, job, path string, after time.Duration) (said uint64) {
	t.Helper()
	cmd := childCommand(job, path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if timer == nil {
			timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		if lines.Text() == "begun" {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &said); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if timer == nil || problems.Len() > 0 {
		t.Fatalf("the child: %s", problems.String())
	}
	return said
}

// TestTightLoop starts and kills processes repeatedly, two at a time as in a rolling update. Only the store and its
// ".opening" file may be left, and the store must not grow.
func TestTightLoop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(9, 10))
	for life := range soaked(12, 240) / every {
		var wg sync.WaitGroup
		for range 2 {
			after := time.Duration(random.IntN(30_000)) * time.Microsecond
			wg.Go(func() { killLater(t, path, after) })
		}
		wg.Wait()
		for _, name := range filesIn(t, filepath.Dir(path)) {
			if name != "store" && name != "store"+disk.SuffixOpening && !strings.HasPrefix(name, "store"+disk.SuffixNew) {
				t.Fatalf("life %d has left %s", life, name)
			}
		}
	}
	s := mustOpen(t, path, store.Options{})
	if s.Quarantined() != "" {
		t.Errorf("a good file was moved aside as %s", s.Quarantined())
	}
	if size, _, err := s.Size(); err != nil || size > 8<<20 {
		t.Errorf("the file has %d bytes, %v", size, err)
	}
	if _, err := crashState(s); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
	wantNames(t, filepath.Dir(path), "store")
}

func killLater(t *testing.T, path string, after time.Duration) {
	cmd := childCommand("crash", path)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	lines := bufio.NewScanner(out)
	for begun := false; lines.Scan(); begun = true {
		if !begun {
			defer time.AfterFunc(after, func() { _ = cmd.Process.Kill() }).Stop()
		}
	}
	_ = cmd.Wait()
	if problems.Len() > 0 {
		t.Errorf("the child: %s", problems.String())
	}
}
