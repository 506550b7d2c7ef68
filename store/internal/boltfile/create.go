package boltfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/larder-dev/larder/internal/base"
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

// NewFile is a file that is made under a temporary name, and gets its final name when all of it is on the disk. Until
// then, opening a file of the final name fails in other processes with ErrLocked.
type NewFile struct {
	Path string // final name, with links resolved
	Temp string // temporary name; RemoveDebris removes such files
	mark *Mark
}

// BeginFile reserves path for a new file, and creates its directory. It fails with ErrExists if anything is at path,
// even a dangling symbolic link. It fails with ErrLocked if another process still makes or opens the file at the
// deadline.
func BeginFile(ctx context.Context, path string, deadline time.Time) (*NewFile, error) {
	if err := MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := WantNone(path); err != nil {
		return nil, err
	}
	path, err := base.RealPath(path)
	if err != nil {
		return nil, err
	}
	mark, err := TakeMark(ctx, path, deadline)
	if err != nil {
		return nil, err
	}
	if err := WantNone(path); err != nil { // Another process may have made a file during the wait for the Mark.
		return nil, errors.Join(err, mark.Release())
	}
	RemoveDebris(path)
	return &NewFile{Path: path, Temp: temporaryName(path), mark: mark}, nil
}

// TakeName gives the file its final name. The file must be closed and synced. TakeName fails with ErrExists if a file
// of that name has appeared meanwhile. After any error, call Abort.
func (n *NewFile) TakeName(log logr.Logger) error {
	if err := TakeName(n.Temp, n.Path); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(n.Path)); err != nil {
		log.Error(err, "The directory could not be synced: a crash of the machine may take the new store's name away")
	}
	if err := n.mark.Release(); err != nil {
		log.Error(err, "The mark beside the store could not be removed; the next process will verify the store")
	}
	return nil
}

// Abort removes the temporary file, which must be closed, and other debris beside it.
func (n *NewFile) Abort() error {
	RemoveDebris(n.Path)
	return n.mark.Release()
}

// isNoSpace reports whether err means that no space is left: on the disk, in the quota, or below a file size limit of
// the system or of Options.MaxSize.
func isNoSpace(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrNoSpace) || errors.Is(err, berrors.ErrMaxSizeReached) {
		return true
	}
	for _, errno := range noSpaceErrors() {
		// bbolt keeps only the text of the system's error when it fails to grow the file.
		if errors.Is(err, errno) || strings.HasSuffix(err.Error(), ": "+errno.Error()) {
			return true
		}
	}
	return false
}
