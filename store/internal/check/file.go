package check

import (
	"context"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/keyring"
)

// File is the file to check.
type File struct {
	*boltfile.File
	// Keys are the data keys of the file.
	Keys *keyring.Ring
	// Rate is the number of bytes per second that Content reads; 0 is no limit. With a limit, Content stops writes to
	// the file when it finds damage. Pages does so in any case.
	Rate int
}

// ProblemError returns an error for a problem. It wraps entry.ErrDamaged.
func (f *File) ProblemError(problem string) error {
	return fmt.Errorf("%s: %s: %w", f.Path, problem, entry.ErrDamaged)
}

// viewPages calls fn with the pages of the file that a read transaction sees.
func (f *File) viewPages(ctx context.Context, fn func(h *boltfile.Handle, pages *boltcheck.File) error) error {
	return f.ViewFile(ctx, func(h *boltfile.Handle, size int64, txid uint64) error {
		pages, err := boltcheck.OpenTx(h.File, size, txid)
		if err != nil {
			return err
		}
		return fn(h, pages)
	})
}
