package check

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/seal"
)

// File is the file to check. The functions are those of the store that has it open.
type File struct {
	// Path is what errors call the file.
	Path string
	// View calls fn in a read transaction of the current file.
	View func(ctx context.Context, fn func(h *boltfile.Handle, tx *bolt.Tx) error) error
	// IsCurrent reports whether h is still the store's file: a rebuild or a compaction replaces it.
	IsCurrent func(h *boltfile.Handle) bool
	// Fail stops writes to h, because of damage.
	Fail func(h *boltfile.Handle, why error)
	// Writer waits until nobody writes, and keeps others from writing until release is called.
	Writer func(ctx context.Context) (release func(), err error)
	// Opener returns what decrypts the records of a collection.
	Opener func(collection string) seal.Opener
	// Counts corrects what is counted while others write.
	Counts *Counts
	// Rate is how many bytes a second are read; 0 is no limit. With a limit, damage that Content finds stops writes, as
	// that of pages always does.
	Rate int
}

// ProblemError returns a problem as an error that wraps entry.ErrDamaged.
func (f *File) ProblemError(problem string) error {
	return fmt.Errorf("%s: %s: %w", f.Path, problem, entry.ErrDamaged)
}

// Size returns the size of the file and of its free pages, in bytes. It reads only a few pages.
func (f *File) Size(ctx context.Context) (total, free int64, err error) {
	err = f.view(ctx, func(h *boltfile.Handle, size int64, txid uint64) error {
		total = size
		free, err = boltcheck.FreeBytes(h.File, txid)
		return err
	})
	return total, free, err
}

// viewPages calls fn with the pages of a read transaction.
func (f *File) viewPages(ctx context.Context, fn func(h *boltfile.Handle, pages *boltcheck.File) error) error {
	return f.view(ctx, func(h *boltfile.Handle, size int64, txid uint64) error {
		pages, err := boltcheck.OpenTx(h.File, size, txid)
		if err != nil {
			return err
		}
		return fn(h, pages)
	})
}

// view calls fn in a read transaction, with the file's size and the transaction's id. It repeats that while fn fails
// with ErrOvertaken: writers have reused pages. If fn finds the file damaged, all writing stops.
func (f *File) view(ctx context.Context, fn func(h *boltfile.Handle, size int64, txid uint64) error) error {
	err := boltcheck.ErrOvertaken
	for errors.Is(err, boltcheck.ErrOvertaken) {
		err = f.View(ctx, func(h *boltfile.Handle, tx *bolt.Tx) error {
			info, err := h.File.Stat()
			if err != nil {
				return err
			}
			err = boltfile.OwnErrors(fn(h, info.Size(), uint64(tx.ID())))
			if errors.Is(err, entry.ErrDamaged) {
				f.Fail(h, fmt.Errorf("%s: %w", f.Path, err))
			}
			return err
		})
	}
	return err
}
