package check

import (
	"context"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/crypt"
)

type File struct {
	*boltfile.File
	Keys *crypt.Ring
	// Rate is the number of bytes per second that Content reads; 0 for no limit. With a limit, Content stops writes to the
	// file when it finds damage. Pages always does.
	Rate int
}

func (f *File) ProblemError(problem string) error {
	return fmt.Errorf("%s: %s: %w", f.Path, problem, entry.ErrDamaged)
}

func (f *File) viewPages(ctx context.Context, fn func(h *boltfile.Handle, pages *boltcheck.File) error) error {
	return f.ViewFile(ctx, func(h *boltfile.Handle, size int64, txid uint64) error {
		pages, err := boltcheck.OpenTx(h.File, size, txid)
		if err != nil {
			return err
		}
		return fn(h, pages)
	})
}
