package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/snapshot"
)

// Repository is a set of snapshots, at a URL that ends in a slash.
type Repository struct {
	at location
	o  Options
}

// Item is a snapshot of a Repository.
type Item struct {
	Name string
	// Taken is the time in the name, in seconds: TakenAt, or the file's time if TakenAt was unknown or unreadable.
	Taken time.Time
	// Size is in bytes. In an OCI registry it is 0 until Describe.
	Size int64
	// Latest is true for the snapshot that readers of the repository's URL receive.
	Latest bool
	// Manifest describes the snapshot; Describe sets it. It is nil before, and if the snapshot could not be read (Err).
	Manifest *snapshot.Manifest
	Err      error
}

// The name of a snapshot begins with its time, so names sort by time. The start of the file's SHA-256 follows.
const (
	nameTime   = "20060102T150405Z"
	nameDigest = 12
	nameSuffix = ".larder"
	maxName    = 64
)

var namePattern = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}\.larder$`)

// isName reports whether name has the form of the names that Push gives. Files with other names are ignored.
func isName(name string) bool {
	_, err := takenOf(name)
	return namePattern.MatchString(name) && err == nil
}

func takenOf(name string) (time.Time, error) {
	text, _, _ := strings.Cut(name, "-")
	return time.Parse(nameTime, text)
}

// NewRepository returns the repository at a URL. It sends no request.
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

// Name returns the URL without credentials.
func (r *Repository) Name() string { return r.at.name }

// Prepare returns an error if the repository cannot be written, as far as this is known without a request. It creates a
// missing directory and its parents, as a store does.
func (r *Repository) Prepare() error {
	switch files := r.at.files.(type) {
	case web:
		return ErrReadOnly
	case directory:
		dir := cmp.Or(string(files), ".")
		info, err := os.Stat(dir)
		if errors.Is(err, os.ErrNotExist) {
			return os.MkdirAll(dir, 0o700)
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no directory", dir)
		}
		return err
	}
	return nil
}

// Push adds the snapshot in f to the repository and makes it the latest, even if another has a later time: that may
// come from a wrong clock. If Options.Identities cannot decrypt the snapshot, the file's modification time is its time.
// Push returns the name. Concurrent pushes are safe, but either snapshot may become the latest.
func (r *Repository) Push(ctx context.Context, f *os.File) (name string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("push %s to %s: %w", f.Name(), r.at.name, err)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	taken, err := r.takenAt(f, info)
	if err != nil {
		return "", err
	}
	whole := io.NewSectionReader(f, 0, info.Size())
	h := sha256.New()
	if _, err := io.Copy(h, whole); err != nil {
		return "", err
	}
	name = taken.UTC().Format(nameTime) + "-" + fmt.Sprintf("%x", h.Sum(nil))[:nameDigest] + nameSuffix
	if _, err := whole.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	// If the repository has the snapshot already, its file is not replaced while others read it.
	if there, err := bounded(ctx, r.at.files, name); err == nil {
		size := there.Size()
		if err := there.Close(); err == nil && size == info.Size() {
			return name, r.put(ctx, latestFile, strings.NewReader(name+"\n"))
		}
	}
	if err := r.put(ctx, name, whole); err != nil {
		return "", err
	}
	return name, r.put(ctx, latestFile, strings.NewReader(name+"\n"))
}

// put uploads a file. It gives up if the destination reads nothing for uploadTimeout.
func (r *Repository) put(ctx context.Context, name string, in io.ReadSeeker) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(uploadTimeout, func() { cancel(errUploadTimeout) })
	defer timer.Stop()
	err := r.at.files.Put(ctx, name, watched{in, timer})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err
}

// watched is a reader that resets a timer with each read.
type watched struct {
	io.ReadSeeker
	timer *time.Timer
}

func (w watched) Read(data []byte) (int, error) {
	w.timer.Reset(uploadTimeout)
	return w.ReadSeeker.Read(data)
}

// takenAt returns the time of a snapshot, or the file's modification time if that is unknown.
func (r *Repository) takenAt(f *os.File, info fs.FileInfo) (time.Time, error) {
	s, err := snapshot.NewFile(borrowed{diskFile{f, info.Size()}}, info.Size(),
		snapshot.OpenOptions{Identities: r.o.Identities})
	switch {
	case errors.Is(err, snapshot.ErrEncrypted), errors.Is(err, snapshot.ErrIdentity):
		return info.ModTime(), nil
	case err != nil:
		return time.Time{}, err
	case s.Manifest().TakenAt.IsZero():
		return info.ModTime(), nil
	}
	return s.Manifest().TakenAt, nil
}

// List returns the snapshots of the repository, newest first. If the latest is unknown, no Item has Latest set.
func (r *Repository) List(ctx context.Context) ([]Item, error) {
	items, _, err := r.list(ctx)
	return items, err
}

// list is List, but also returns the error of reading which snapshot is the latest.
func (r *Repository) list(ctx context.Context) (items []Item, latestErr, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errRequestTimeout)
	defer cancel()
	all, err := r.at.files.List(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", r.at.name, err)
	}
	var latest string
	if len(all) > 0 {
		latest, latestErr = r.at.latest(ctx)
	}
	for _, i := range all {
		if isName(i.Name) {
			taken, _ := takenOf(i.Name) // cannot fail: isName has parsed the name
			items = append(items, Item{Name: i.Name, Taken: taken, Size: i.Size, Latest: i.Name == latest})
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(b.Name, a.Name) })
	return items, latestErr, nil
}

const maxOpen = 8

// Describe opens each snapshot, and sets Size, Manifest and Err of its Item. It fails if ctx ends.
func (r *Repository) Describe(ctx context.Context, items []Item) error {
	o := r.o
	o.MaxAge = 0
	var group errgroup.Group
	group.SetLimit(maxOpen)
	for i := range items {
		group.Go(func() error {
			it := &items[i]
			file, err := bounded(ctx, r.at.files, it.Name)
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

// Prune removes the snapshots that the policy does not keep, but never the latest or the newest. If dry is true it
// removes nothing. It returns the kept and the removed snapshots. A snapshot whose removal fails is in kept, and err
// has the error.
func (r *Repository) Prune(ctx context.Context, keep Keep, dry bool) (kept, removed []Item, err error) {
	if min(keep.Last, keep.Hourly, keep.Daily, keep.Weekly) < 0 {
		return nil, nil, fmt.Errorf("prune %s: what is to be kept is negative: %+v", r.at.name, keep)
	}
	items, latestErr, err := r.list(ctx)
	if err != nil || len(items) == 0 {
		return nil, nil, err
	}
	if latestErr != nil && !errors.Is(latestErr, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("prune %s: %w", r.at.name, latestErr)
	}
	keeps := keep.choose(items)
	for i, it := range items {
		remove := !keeps[i] && i > 0 && !it.Latest && ctx.Err() == nil
		if remove && !dry {
			if wrong := r.remove(ctx, it.Name); wrong != nil {
				err, remove = errors.Join(err, fmt.Errorf("prune %s: remove %s: %w", r.at.name, it.Name, wrong)), false
			}
		}
		if remove {
			removed = append(removed, it)
		} else {
			kept = append(kept, it)
		}
	}
	return kept, removed, errors.Join(err, ctx.Err())
}

func (r *Repository) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errRequestTimeout)
	defer cancel()
	err := r.at.files.Remove(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Pull copies the snapshot at a URL to path, and verifies it. A snapshot that Options.Identities cannot decrypt is only
// copied, and verified is false. An existing snapshot at path is replaced once the new file is synced; any other file
// is an error.
func Pull(ctx context.Context, from, path string, o Options) (name string, verified bool, err error) {
	at, err := parse(from, o)
	if err != nil {
		return "", false, err
	}
	in, name, err := at.open(ctx)
	if err != nil {
		return name, false, fmt.Errorf("pull %s: %w", name, err)
	}
	err = base.WriteFile(path, base.WriteOptions{May: snapshot.Replaceable}, func(f *os.File) error {
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(f, h), io.NewSectionReader(in, 0, in.Size())); err != nil {
			return err
		}
		if sum := fmt.Sprintf("%x", h.Sum(nil)); isName(lastElement(name)) && !strings.HasSuffix(lastElement(name),
			"-"+sum[:nameDigest]+nameSuffix) {
			return fmt.Errorf("it is not what was pushed: its SHA-256 is %s", sum)
		}
		verified, err = o.verify(ctx, f, name)
		return err
	})
	if err = errors.Join(err, in.Close()); err != nil {
		return name, false, fmt.Errorf("pull %s: %w", name, err)
	}
	return name, verified, nil
}

// lastElement returns the last element of a snapshot's name for messages, which may be a URL or a path.
func lastElement(name string) string { return name[strings.LastIndexAny(name, "/:\\")+1:] }

// borrowed is a file whose owner closes it: its Close does nothing.
type borrowed struct{ diskFile }

func (borrowed) Close() error { return nil }

// verify reads and checks the whole snapshot. It returns false for an encrypted snapshot if neither identities nor
// signatures were given: nothing can be checked then.
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

// Keep is a retention policy for a repository: it keeps each snapshot that any of its fields selects.
type Keep struct {
	Last int
	// Hourly, Daily and Weekly are numbers of hours, days and weeks (in UTC) whose newest snapshot is kept. Hours, days
	// and weeks without a snapshot do not count.
	Hourly, Daily, Weekly int
}

func (k Keep) choose(items []Item) []bool {
	keeps := make([]bool, len(items))
	for i := range items[:min(max(k.Last, 0), len(items))] {
		keeps[i] = true
	}
	newest(items, keeps, k.Hourly, func(t time.Time) time.Time { return t.Truncate(time.Hour) })
	newest(items, keeps, k.Daily, func(t time.Time) time.Time { return t.Truncate(24 * time.Hour) })
	// Weeks begin on Monday, as Truncate counts from the year 1.
	newest(items, keeps, k.Weekly, func(t time.Time) time.Time { return t.Truncate(7 * 24 * time.Hour) })
	return keeps
}

// newest keeps the newest snapshot of each hour, day or week, for as many of these spans. of returns the start of a
// span.
func newest(items []Item, keeps []bool, spans int, of func(time.Time) time.Time) {
	var last time.Time
	for i, it := range items {
		if spans <= 0 {
			return
		}
		if span := of(it.Taken); i == 0 || !span.Equal(last) {
			keeps[i], last = true, span
			spans--
		}
	}
}

// Handler serves the repository in a directory, and no other files, for GET and HEAD. Its URL is the repository's URL.
func Handler(dir string) http.Handler { return handler(dir) }

type handler string

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name != latestFile && !isName(name) {
		http.NotFound(w, r)
		return
	}
	f, err := os.Open(filepath.Join(string(h), name))
	if errors.Is(err, fs.ErrNotExist) {
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, "the snapshot cannot be read", http.StatusInternalServerError)
		return
	}
	defer func() { _ = f.Close() }() // the file was opened for reading, so an error of Close does not matter
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.Error(w, "the snapshot cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", CacheControl(name)+", private")
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// Directory returns the directory of a repository on the local disk.
func (r *Repository) Directory() (string, bool) {
	d, ok := r.at.files.(directory)
	return string(d), ok
}
