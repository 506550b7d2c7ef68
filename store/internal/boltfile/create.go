package boltfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// Create makes an empty store at path. It is complete, and on the disk,
// before it gets its name: a crash leaves no store or a good one. The name is
// on the disk when the store is open. The caller holds the mark.
func Create(path string, o Creating) error {
	h, err := New(path, o)
	if err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	name := h.Path
	err = h.Close()
	if err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		return fmt.Errorf("make it: %w", errors.Join(err, os.Remove(name)))
	}
	return nil
}

// Creating is how a file is made.
type Creating struct {
	// write fills it, in one transaction.
	Write func(tx *bolt.Tx) error
	// maxSize bounds the file; 0 does not. pageSize is that of its pages; 0 is the system's. mapped is how much address
	// space is mapped; 0 is bbolt's choice.
	MaxSize          int64
	PageSize, Mapped int
}

// New makes a file under a temporary name beside path, and leaves it open and locked.
func New(path string, o Creating) (*Handle, error) {
	name := path + format.SuffixNew + rand.Text()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, ClassifySpace(err)
	}
	making := Opening{Path: name, File: f, MaxSize: o.MaxSize, pageSize: o.PageSize}
	h, err := making.openBolt(o.Mapped)
	if err == nil {
		err = h.Update(o.Write, (*bolt.Tx).Commit)
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}
	if err != nil {
		return nil, ClassifySpace(errors.Join(err, os.Remove(name)))
	}
	return h, nil
}

// ClassifySpace makes an error that says so wrap errNoSpace.
func ClassifySpace(err error) error {
	if IsNoSpace(err) && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// RemoveDebris removes the stores that crashed processes were making. The
// caller holds the mark and the lock on the store, so that nobody is making one.
// What cannot be removed is tried again next time.
func RemoveDebris(path string) {
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
