package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// createFile makes an empty store at path. It is complete, and on the disk,
// before it gets its name: a crash leaves no store or a good one. The name is
// on the disk when the store is open. The caller holds the mark.
func createFile(path string, pageSize int) error {
	h, err := newFile(path, 0, Options{pageSize: pageSize})
	if err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	name := h.path
	err = h.close()
	if err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		return fmt.Errorf("make it: %w", errors.Join(err, os.Remove(name)))
	}
	return nil
}

// newFile makes an empty store under a temporary name beside path, and leaves
// it open and locked.
func newFile(path string, mapped int, o Options) (*handle, error) {
	name := path + format.SuffixNew + rand.Text()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, classifySpace(err)
	}
	making := opening{path: name, file: f, maxSize: o.MaxSize, pageSize: o.newPageSize()}
	h, err := making.openBolt(mapped)
	if err == nil {
		err = h.update(func(tx *bolt.Tx) error { return writeRoot(tx, time.Now()) }, (*bolt.Tx).Commit)
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}
	if err != nil {
		return nil, classifySpace(errors.Join(err, os.Remove(name)))
	}
	return h, nil
}

// classifySpace makes an error that says so wrap ErrNoSpace.
func classifySpace(err error) error {
	if isNoSpace(err) && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// removeDebris removes the stores that crashed processes were making. The
// caller holds the mark and the lock on the store, so that nobody is making one.
// What cannot be removed is tried again next time.
func removeDebris(path string) {
	for _, name := range beside(path, format.SuffixNew) {
		_ = os.Remove(name)
	}
}

// beside returns the files whose names are that of the store and suffix and
// something more, in order.
func beside(path, suffix string) []string {
	dir, prefix := filepath.Dir(path), filepath.Base(path)+suffix
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && e.Type().IsRegular() {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}
