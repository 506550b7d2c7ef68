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

// Create makes an empty store at path. The file is complete and synced before it gets its name: a crash leaves no store
// or a good one. Create does not sync the directory. The caller holds the mark.
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

// Creating holds the parameters of a new file.
type Creating struct {
	// Write writes the content, in one transaction.
	Write func(tx *bolt.Tx) error
	// MaxSize is the maximum size of the file; 0 for none.
	MaxSize int64
	// PageSize is the size of its pages; 0 for the system's. Mapped is how much address space is mapped; 0 for bbolt's
	// choice.
	PageSize, Mapped int
}

// New makes a file under a temporary name beside path, and returns it open and locked. If it fails it leaves no file.
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

// ClassifySpace returns err, wrapped with ErrNoSpace if IsNoSpace reports so.
func ClassifySpace(err error) error {
	if IsNoSpace(err) && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// RemoveDebris removes the temporary files of crashed processes beside path. The caller holds the mark and the lock on
// the store, so no process is using such a file. Files that cannot be removed are left for the next call.
func RemoveDebris(path string) {
	for _, name := range beside(path, format.SuffixNew) {
		_ = os.Remove(name)
	}
}

// beside returns the regular files whose names begin with path and suffix, in order of names.
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
