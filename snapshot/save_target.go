package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/larder-dev/larder/internal/base"
)

// saveAt calls write with a new temporary file, and renames that file to path. If several processes save to one path at
// the same time, the last file stays; with KeepExisting the first one stays.
func saveAt(path string, o SaveOptions, write func(*os.File) (Saved, error)) (saved Saved, err error) {
	written := false
	may := func(target string) error {
		err := Replaceable(target)
		if _, there := os.Lstat(target); err == nil && o.KeepExisting && written && there == nil {
			err = fmt.Errorf("%s has been made meanwhile, and is kept: %w", target, fs.ErrExist)
		}
		return err
	}
	err = base.WriteFile(path, base.WriteOptions{May: may}, func(f *os.File) error {
		if saved, err = write(f); err == nil && o.Accept != nil {
			err = o.Accept(saved)
		}
		written = true
		return err
	})
	switch {
	case errors.Is(err, base.ErrNotSynced):
		return saved, fmt.Errorf("save to %s: the snapshot is there, but %w", path, err)
	case err != nil:
		return Saved{}, fmt.Errorf("save to %s: %w", path, err)
	}
	return saved, nil
}

// Replaceable returns an error if path has anything but a snapshot or an empty file: a save replaces no other file.
func Replaceable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	is, err := Is(path)
	if err == nil && !is {
		err = fmt.Errorf("it is there and no snapshot, and nothing else is replaced; choose another name: %w", fs.ErrExist)
	}
	return err
}
