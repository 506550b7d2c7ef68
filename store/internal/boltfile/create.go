package boltfile

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

// create makes an empty store at path. The file is complete and synced before the rename to path, so a crash leaves
// either no store or a good one. create does not sync the directory. The caller holds the Mark.
func create(path string, o creating) error {
	h, err := createTemporary(path, o)
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

type creating struct {
	// maxSize is the maximum size of the file in bytes; 0 for no limit.
	maxSize int64
	// pageSize is the page size; 0 for the system's. mapped is the size of the address space to map; 0 for bbolt's choice.
	pageSize, mapped int
}

func temporaryName(path string) string { return path + format.SuffixNew + rand.Text() }

// createTemporary makes an empty, open and locked store under a temporary name. RemoveDebris removes it after a crash.
func createTemporary(path string, o creating) (*Handle, error) {
	name := temporaryName(path)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, ClassifySpace(err)
	}
	making := opening{Path: name, File: f, MaxSize: o.maxSize, pageSize: o.pageSize}
	h, err := making.openBolt(o.mapped)
	if err == nil {
		err = h.Update(func(tx *bolt.Tx) error { return writeRoot(tx, time.Now()) }, (*bolt.Tx).Commit)
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}
	if err != nil {
		return nil, ClassifySpace(errors.Join(err, os.Remove(name)))
	}
	return h, nil
}

// ClassifySpace wraps err with ErrNoSpace if isNoSpace(err) is true, and otherwise returns err unchanged.
func ClassifySpace(err error) error {
	if isNoSpace(err) && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// RemoveDebris removes the temporary files of crashed processes beside path. The caller holds the Mark and the lock on
// the store, so no process is using these files. The next call removes files whose removal failed.
func RemoveDebris(path string) {
	for _, name := range beside(path, format.SuffixNew) {
		_ = os.Remove(name)
	}
}

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
