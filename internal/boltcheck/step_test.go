package boltcheck_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/boltcheck"
)

// withFreePages returns a file of which much more is free than in use.
func withFreePages(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: 1024, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{"kept", "removed"} {
			b, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			for n := range map[string]int{"kept": 500, "removed": 20000}[name] {
				if err := b.Put(fmt.Appendf(nil, "%06d", n), make([]byte, 600)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("removed")) })
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// counting is a file that knows how much of it was read.
type counting struct {
	*bytes.Reader
	read int
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.read += n
	return n, err
}

// TestStepsOfAFileWithManyFreePages: steps that are each of another transaction read the list of free pages each. They
// are longer then, so that it is not most of what is read, and they tell of it.
func TestStepsOfAFileWithManyFreePages(t *testing.T) {
	data := withFreePages(t)
	total := func(size int) (told, read int) {
		r := &counting{Reader: bytes.NewReader(data)}
		var s boltcheck.Steps
		for !s.Done() {
			f, err := boltcheck.Open(r, int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.Next(t.Context(), f, size)
			if err != nil || len(s.Problems()) > 0 {
				t.Fatalf("%q, %v", s.Problems(), err)
			}
			told += n
		}
		return told, r.read
	}
	_, once := total(1 << 30)
	told, read := total(8 << 10)
	if read > 2*once {
		t.Errorf("steps of 8 KiB read %d bytes, a walk at once %d", read, once)
	}
	if told < read*3/4 || told > read {
		t.Errorf("%d bytes were read, and %d told", read, told)
	}
}
