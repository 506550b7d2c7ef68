package boltfile

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/internal/base"
)

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
