package boltfile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
)

// opening holds a locked file and the parameters to open it as a Handle.
type opening struct {
	Path     string
	File     *os.File
	ReadOnly bool
	MaxSize  int64
	pageSize int // pageSize is the page size of a new file; an existing file has its own.
	// Verify makes Open verify every page before bbolt maps the file.
	Verify bool
	// branchBytes bounds the bytes of branch pages that Open verifies in a cleanly closed file.
	branchBytes int
	// Unseen is true after Open if some branch pages are not verified.
	Unseen bool

	root root // Open reads root, the content of the root bucket.
}

// BranchDepth is the depth of the objects bucket. At that depth and below, a walk of the branch pages skips the leaves.
const BranchDepth = 2

// branchBytes is the number of bytes of branch pages that Open verifies in a cleanly closed file: for about 25,000
// objects of 3 KB, in 3 ms. The rest is verified in the background.
const branchBytes = 2 << 20

// Open verifies the file as far as the cost does not depend on its size, and opens it. In a cleanly closed file it
// verifies branchBytes of the branch pages, and otherwise all branch pages. bbolt would loop for ever in a cycle of
// branch pages; and if the freelist had a page that is in use, the first write could make a cycle. If Open fails, it
// closes the file.
func (o *opening) Open() (*Handle, error) {
	pages, err := o.inspect()
	if err != nil {
		return nil, errors.Join(err, o.File.Close())
	}
	h, err := o.openBolt(mapSize(int64(pages.HighWater) * int64(pages.PageSize)))
	if err != nil {
		return nil, o.judge(err)
	}
	err = o.judge(h.View(func(tx *bolt.Tx) (err error) {
		if o.root, err = readRoot(tx); err != nil {
			return err
		}
		return h.adopt(tx)
	}))
	if errors.Is(err, ErrForeign) {
		err = o.judgeRoot(pages)
	}
	if err == nil && !o.Verify {
		err = o.walkBranches(pages, o.root.clean)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// judgeRoot returns the error for a file without the store's root bucket: ErrDamaged if the root page is of a store,
// and otherwise ErrForeign.
func (o *opening) judgeRoot(pages *boltcheck.File) error {
	page := make([]byte, pages.PageSize)
	if _, err := o.File.ReadAt(page, int64(pages.Root)*int64(pages.PageSize)); err != nil {
		return err
	}
	if rootPageIsOurs(page) {
		return fmt.Errorf("%w: its root bucket cannot be found", entry.ErrDamaged)
	}
	return ErrForeign
}

// inspect verifies the meta pages and the size of the file without mapping it, and every page if Verify is set.
func (o *opening) inspect() (*boltcheck.File, error) {
	info, err := o.File.Stat()
	if err != nil {
		return nil, err
	}
	pages, err := boltcheck.Open(o, info.Size())
	if err == nil && o.Verify {
		err = o.walk(pages, boltcheck.WalkOptions{})
	}
	return pages, OwnErrors(err)
}

// ReadAt reads from the current o.File, which openBolt may have replaced.
func (o *opening) ReadAt(p []byte, off int64) (n int, err error) { return o.File.ReadAt(p, off) }

// errEnoughSeen ends a walk of the branch pages after branchBytes.
var errEnoughSeen = errors.New("enough has been read")

// walkBranches verifies the branch pages. In a clean file it stops after branchBytes, and sets Unseen.
func (o *opening) walkBranches(pages *boltcheck.File, clean bool) error {
	left := o.branchBytes
	err := o.walk(pages, boltcheck.WalkOptions{LeafDepth: BranchDepth, Pace: func(_ context.Context, bytes int) error {
		if left -= bytes; left < 0 && clean {
			return errEnoughSeen
		}
		return nil
	}})
	if errors.Is(err, errEnoughSeen) {
		o.Unseen = true
		return nil
	}
	return err
}

func (o *opening) walk(pages *boltcheck.File, how boltcheck.WalkOptions) error {
	problems, err := pages.Walk(context.Background(), how)
	if len(problems) > 0 { // Problems are reported even if the walk ended early.
		return PagesError(o.Path, problems)
	}
	return OwnErrors(err)
}

// OwnErrors wraps the errors of boltcheck with entry.ErrDamaged and ErrForeign.
func OwnErrors(err error) error {
	switch {
	case errors.Is(err, boltcheck.ErrDamaged):
		return fmt.Errorf("%w: %w", entry.ErrDamaged, err)
	case errors.Is(err, boltcheck.ErrForeign):
		return fmt.Errorf("%w: %w; use another file", ErrForeign, err)
	}
	return err
}

// openBolt opens the file with bbolt. If it fails, it closes the file.
func (o *opening) openBolt(mapped int) (*Handle, error) {
	h := &Handle{Path: o.Path, File: o.File}
	var err error
	if h.Identity, err = o.File.Stat(); err != nil {
		return nil, errors.Join(err, o.File.Close())
	}
	err = contain(func() error {
		db, err := bolt.Open(o.Path, 0o600, &bolt.Options{
			Timeout:         1, // The file is locked already, so bbolt need not wait.
			ReadOnly:        o.ReadOnly,
			FreelistType:    bolt.FreelistArrayType, // With the map freelist the file grows for ever (docs/adr/0006).
			InitialMmapSize: mapped,
			PageSize:        o.pageSize,
			MaxSize:         o.limit(),
			NoStatistics:    true, // Every reader would take the lock of the statistics.
			OpenFile:        o.openLockedFile,
		})
		h.DB = db
		return err
	})
	if err != nil && mapped > 0 && errors.Is(err, syscall.ENOMEM) {
		// The process's address space is too small for mapped (ulimit -v): bbolt may choose. bbolt has closed the file.
		if o.File, err = os.OpenFile(o.Path, o.flag()|noFollow, 0); err != nil {
			return nil, err
		}
		return o.openBolt(0)
	}
	if err != nil {
		_ = closeMapped(o.File) // bbolt has closed the file, unless bbolt panicked.
		return nil, err
	}
	h.DB.AllocSize = AllocSize
	return h, nil
}

// AllocSize is the number of bytes by which the file grows at a time. Unused pages take no space on most file systems.
const AllocSize = 4 << 20

func (o *opening) flag() int {
	if o.ReadOnly {
		return os.O_RDONLY
	}
	return os.O_RDWR
}

// openLockedFile gives bbolt the locked file. It does not open the name, which another file may have by now.
func (o *opening) openLockedFile(string, int, os.FileMode) (*os.File, error) { return o.File, nil }

// judge returns the error for a failure to open the file. If bbolt reports damage, judge verifies the file without
// bbolt: a temporary read error of the disk does not mean that the file is damaged.
func (o *opening) judge(err error) error {
	var fault *FaultError
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return locked(o.Path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, berrors.ErrChecksum):
	case !errors.As(err, &fault):
		return err
	}
	if again := o.lookAgain(); again != nil {
		return again
	}
	if fault != nil && !fault.isMemoryFault() {
		return err // bbolt cannot use the pages, although they are valid.
	}
	return fmt.Errorf("it could not be read, though its pages are good now; try again (%v)", err) //nolint:errorlint
}

func (o *opening) lookAgain() error {
	f, err := os.Open(o.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	look := &opening{Path: o.Path, File: f, Verify: true}
	_, err = look.inspect()
	return err
}

// mappable is the size of the largest file that bbolt can map: 2 GiB with 32-bit pointers. Tests set it.
var mappable int64 = math.MaxInt

// mapReserve is how far below mappable a file stops growing, so that bbolt's calculations with sizes do not overflow.
const mapReserve = 64 << 20

func (o *opening) limit() int {
	limit := mappable - mapReserve
	if o.MaxSize > 0 {
		limit = min(limit, o.MaxSize)
	}
	return int(limit)
}

// PagesError returns an error for the problems that a walk found. It wraps entry.ErrDamaged.
func PagesError(path string, problems []string) error {
	return fmt.Errorf("%w: %s has %d problems, the first is: %s", entry.ErrDamaged, path, len(problems), problems[0])
}
