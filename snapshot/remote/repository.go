package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-dev/larder/internal/wholefile"
	"github.com/larder-dev/larder/snapshot"
)

// Repository is the snapshots at a URL that ends in a slash.
type Repository struct {
	at place
	o  Options
}

// Item is a snapshot of a Repository.
type Item struct {
	// Name is that of the file.
	Name string
	// Taken is when it was taken, to the second.
	Taken time.Time
	// Size is in bytes.
	Size int64
	// Manifest describes it; nil unless Describe was called, or if Err says why it cannot be read.
	Manifest *snapshot.Manifest
	Err      error
}

// A name has the time, so that names are in the order of time, and the beginning of the file's SHA-256.
const (
	nameTime   = "20060102T150405Z"
	nameDigest = 12
	nameSuffix = ".larder"
	maxName    = 64
)

var namePattern = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}\.larder$`)

// isName reports whether a snapshot of a repository may be called so. Whatever else is there is left alone.
func isName(name string) bool {
	_, err := takenOf(name)
	return namePattern.MatchString(name) && err == nil
}

func takenOf(name string) (time.Time, error) {
	text, _, _ := strings.Cut(name, "-")
	return time.Parse(nameTime, text)
}

// NewRepository returns the repository at a URL. It asks nobody.
func NewRepository(at string, o Options) (*Repository, error) {
	p, err := parse(at, o)
	if err != nil {
		return nil, err
	}
	if p.file != "" {
		return nil, fmt.Errorf("%s is one snapshot: the URL of a repository ends in a slash, and has no tag",
			p.nameOf(p.file))
	}
	return &Repository{p, o}, nil
}

// Name is the URL without credentials.
func (r *Repository) Name() string { return r.at.name }

// Push puts the snapshot at path into the repository, and makes it the latest, also if another one says to be of a
// later time, which may be a wrong clock's. A snapshot that is encrypted for others than Options.Identities is taken to
// be as old as the file. It returns the snapshot's name. Two that push at the same time do no harm, but the latest may
// be either.
func (r *Repository) Push(ctx context.Context, path string) (name string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("push %s to %s: %w", path, r.at.name, err)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	taken, err := r.takenAt(path, f)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	name = taken.UTC().Format(nameTime) + "-" + fmt.Sprintf("%x", h.Sum(nil))[:nameDigest] + nameSuffix
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if err := r.at.files.Put(ctx, name, f); err != nil {
		return "", err
	}
	return name, r.at.files.Put(ctx, latestFile, strings.NewReader(name+"\n"))
}

// takenAt returns when a snapshot was taken.
func (r *Repository) takenAt(path string, f *os.File) (time.Time, error) {
	s, err := snapshot.Open(path, snapshot.OpenOptions{Identities: r.o.Identities})
	if err == nil {
		taken := s.Manifest().TakenAt
		if err = s.Close(); err == nil && !taken.IsZero() {
			return taken, nil
		}
	}
	if err != nil && !errors.Is(err, snapshot.ErrEncrypted) && !errors.Is(err, snapshot.ErrIdentity) {
		return time.Time{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// List returns the snapshots of the repository, the newest first.
func (r *Repository) List(ctx context.Context) (items []Item, err error) {
	all, err := r.at.files.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.at.name, err)
	}
	for _, i := range all {
		if isName(i.Name) {
			taken, _ := takenOf(i.Name) // isName has looked
			items = append(items, Item{Name: i.Name, Taken: taken, Size: i.Size})
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(b.Name, a.Name) })
	return items, nil
}

// describing is how many snapshots are opened at a time.
const describing = 8

// Describe opens each snapshot, and sets Size, Manifest and Err. It fails if ctx ends.
func (r *Repository) Describe(ctx context.Context, items []Item) error {
	o := r.o
	o.MaxAge = 0
	var group errgroup.Group
	group.SetLimit(describing)
	for i := range items {
		group.Go(func() error {
			it := &items[i]
			file, err := r.at.files.Open(ctx, it.Name)
			if err != nil {
				it.Err = err
				return ctx.Err()
			}
			it.Size = file.Size()
			f, err := o.open(file, r.at.nameOf(it.Name))
			if err != nil {
				it.Err = err
				return ctx.Err()
			}
			m := f.Manifest()
			it.Manifest, it.Err = &m, f.Close()
			return ctx.Err()
		})
	}
	return group.Wait()
}

// Prune removes the snapshots that are not to be kept, and returns both. The latest is always kept. If dry is true it
// removes none.
func (r *Repository) Prune(ctx context.Context, keep Keep, dry bool) (kept, removed []Item, err error) {
	items, err := r.List(ctx)
	if err != nil || len(items) == 0 {
		return nil, nil, err
	}
	latest, err := r.at.latest(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("prune %s: %w", r.at.name, err)
	}
	keeps := keep.choose(items)
	for i, it := range items {
		if keeps[i] || i == 0 || it.Name == latest {
			kept = append(kept, it)
			continue
		}
		if !dry {
			if err := r.at.files.Remove(ctx, it.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return kept, removed, fmt.Errorf("prune %s: remove %s: %w", r.at.name, it.Name, err)
			}
		}
		removed = append(removed, it)
	}
	return kept, removed, nil
}

// Pull copies the snapshot at a URL to path, and verifies it; one that Options.Identities do not decrypt is only
// copied, and verified is false. The file at path, a snapshot, is replaced once the new one is on the disk.
func Pull(ctx context.Context, from, path string, o Options) (name string, verified bool, err error) {
	at, err := parse(from, o)
	if err != nil {
		return "", false, err
	}
	in, name, err := at.open(ctx)
	if err != nil {
		return name, false, fmt.Errorf("pull %s: %w", name, err)
	}
	err = wholefile.Write(path, func(f *os.File) error {
		if _, err := io.Copy(f, io.NewSectionReader(in, 0, in.Size())); err != nil {
			return err
		}
		verified, err = o.verify(ctx, f, name)
		return err
	})
	if err = errors.Join(err, in.Close()); err != nil {
		return name, false, fmt.Errorf("pull %s: %w", name, err)
	}
	return name, verified, nil
}

// borrowed is a file that somebody else closes.
type borrowed struct{ diskFile }

func (borrowed) Close() error { return nil }

// verify reads all of a snapshot; it reports false if it cannot be decrypted and need not be.
func (o Options) verify(ctx context.Context, f *os.File, name string) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	s, err := o.open(borrowed{diskFile{f, info.Size()}}, name)
	if len(o.Identities)+len(o.SignedBy) == 0 && errors.Is(err, snapshot.ErrEncrypted) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	report, err := s.Verify(ctx)
	if err == nil && len(report.Problems) > 0 {
		err = errors.New(report.Problems[0])
	}
	return err == nil, err
}
