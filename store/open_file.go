package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
)

// opening is a locked file on its way to a handle.
type opening struct {
	path     string
	file     *os.File
	readOnly bool
	maxSize  int64
	// pageSize of a file that is made; one that is there tells its own.
	pageSize int
	// verify looks at every page before bbolt maps the file.
	verify bool
	// branchBytes is how much of the branch pages is read of a file that was closed cleanly.
	branchBytes int
	// unseen: there are branch pages that have not been looked at.
	unseen bool
}

// branchDepth is the depth below which a walk of the branch pages leaves out
// the leaves: that of the buckets of a collection, where the objects are.
const branchDepth = 2

// branchBytes is how much of a file that was closed cleanly is read before it is used: the branch pages of some 25,000
// objects of 3 KB, in 3 ms. The rest is read in the background.
const branchBytes = 2 << 20

// open verifies the file as far as that costs the same for any size, and opens it. That includes the branch pages, or
// branchBytes of them; after an unclean close all of them: bbolt runs for ever in a cycle of them, and if the freelist
// had a page that is in use the first write would make one. The file is closed if there is an error.
func (o *opening) open() (*handle, root, error) {
	pages, err := o.inspect()
	if err != nil {
		return nil, root{}, errors.Join(err, o.file.Close())
	}
	h, err := o.openBolt(mapSize(int64(pages.HighWater) * int64(pages.PageSize)))
	if err != nil {
		return nil, root{}, o.judge(err)
	}
	var rt root
	err = h.view(func(tx *bolt.Tx) error {
		rt, err = readRoot(tx)
		return err
	})
	if err != nil {
		err = o.judge(err)
	}
	if errors.Is(err, ErrForeign) {
		err = o.judgeRoot(pages)
	}
	if err == nil {
		err = checkFormat(rt.version)
	}
	if err == nil && !o.verify {
		err = o.walkBranches(pages, rt.clean)
	}
	if err != nil {
		return nil, root{}, errors.Join(err, h.close())
	}
	return h, rt, nil
}

// judgeRoot says what a file without our root bucket is.
func (o *opening) judgeRoot(pages *boltcheck.File) error {
	page := make([]byte, pages.PageSize)
	if _, err := o.file.ReadAt(page, int64(pages.Root)*int64(pages.PageSize)); err != nil {
		return err
	}
	if rootPageIsOurs(page) {
		return fmt.Errorf("%w: its root bucket cannot be found", entry.ErrDamaged)
	}
	return ErrForeign
}

// inspect looks at the file without mapping it.
func (o *opening) inspect() (*boltcheck.File, error) {
	info, err := o.file.Stat()
	if err != nil {
		return nil, err
	}
	pages, err := boltcheck.Open(o.file, info.Size())
	if err == nil && o.verify {
		err = o.walk(pages, boltcheck.WalkOptions{})
	}
	return pages, ownErrors(err)
}

// errEnoughSeen ends a walk.
var errEnoughSeen = errors.New("enough has been read")

// walkBranches looks at the branch pages, branchBytes of them if the file is clean.
func (o *opening) walkBranches(pages *boltcheck.File, clean bool) error {
	left := o.branchBytes
	err := o.walk(pages, boltcheck.WalkOptions{LeafDepth: branchDepth, Pace: func(_ context.Context, bytes int) error {
		if left -= bytes; left < 0 && clean {
			return errEnoughSeen
		}
		return nil
	}})
	if errors.Is(err, errEnoughSeen) {
		o.unseen = true
		return nil
	}
	return err
}

// walk returns what a walk finds as an error.
func (o *opening) walk(pages *boltcheck.File, how boltcheck.WalkOptions) error {
	problems, err := pages.Walk(context.Background(), how)
	if len(problems) > 0 { // before the walk was ended, too
		return pagesError(o.path, problems)
	}
	return ownErrors(err)
}

// ownErrors adds our sentinels to those of boltcheck.
func ownErrors(err error) error {
	switch {
	case errors.Is(err, boltcheck.ErrDamaged):
		return fmt.Errorf("%w: %w", entry.ErrDamaged, err)
	case errors.Is(err, boltcheck.ErrForeign):
		return fmt.Errorf("%w: %w; use another file", ErrForeign, err)
	}
	return err
}

// openBolt opens the file with bbolt, which closes it if there is an error.
func (o *opening) openBolt(mapped int) (*handle, error) {
	h := &handle{path: o.path, file: o.file}
	var err error
	if h.identity, err = o.file.Stat(); err != nil {
		return nil, errors.Join(err, o.file.Close())
	}
	err = contain(func() error {
		db, err := bolt.Open(o.path, 0o600, &bolt.Options{
			Timeout:         1, // the file is locked already; do not wait
			ReadOnly:        o.readOnly,
			FreelistType:    bolt.FreelistArrayType, // with the map the file grows for ever (docs/adr/0006)
			InitialMmapSize: mapped,
			PageSize:        o.pageSize,
			MaxSize:         clampInt(o.maxSize),
			NoStatistics:    true, // a lock that every reader would take
			OpenFile:        o.openLockedFile,
		})
		h.db = db
		return err
	})
	if err != nil && mapped > 0 && errors.Is(err, syscall.ENOMEM) {
		// The process may not have that much address space (ulimit -v).
		if o.file, err = os.OpenFile(o.path, o.flag(), 0); err != nil {
			return nil, err
		}
		return o.openBolt(0)
	}
	if err != nil {
		_ = closeMapped(o.file) // which bbolt does unless it panicked
		return nil, err
	}
	h.db.AllocSize = allocSize
	return h, nil
}

// allocSize is by how much the file grows at a time, in bytes. What is not
// used yet takes no room on most file systems.
const allocSize = 4 << 20

// LeastMaxSize is the least Options.MaxSize that a file keeps to: it grows by 4 MiB at a time, the first time too, from
// some pages on.
const LeastMaxSize = allocSize + 1<<20

func (o *opening) flag() int {
	if o.readOnly {
		return os.O_RDONLY
	}
	return os.O_RDWR
}

// openLockedFile gives bbolt the file that is locked, rather than the one that
// has the name by now.
func (o *opening) openLockedFile(string, int, os.FileMode) (*os.File, error) { return o.file, nil }

// judge decides what an error of opening the file means. What bbolt takes for
// damage is looked at once more without bbolt: a disk that could not be read
// for a moment is no damaged file.
func (o *opening) judge(err error) error {
	var fault *faultError
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return locked(o.path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, berrors.ErrChecksum):
	case !errors.As(err, &fault):
		return err
	}
	if again := o.lookAgain(); again != nil {
		return again
	}
	if fault != nil && !fault.ofMemory() {
		return err // the pages are good as far as we know, and bbolt cannot use them
	}
	return fmt.Errorf("it could not be read, though its pages are good now; try again (%v)", err) //nolint:errorlint
}

// lookAgain looks at every page of the file that has the name.
func (o *opening) lookAgain() error {
	f, err := os.Open(o.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	look := &opening{path: o.path, file: f, verify: true}
	_, err = look.inspect()
	return err
}

func clampInt(n int64) int { return int(min(n, int64(int(^uint(0)>>1)))) }
