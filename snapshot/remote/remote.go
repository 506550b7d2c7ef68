package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/snapshot"
)

// Options are the options of the functions that take a URL. The zero value works for https, http and file.
type Options struct {
	// Identities are tried in turn if the snapshot is encrypted.
	Identities []age.Identity
	// SignedBy are keys of which one must have signed the snapshot. Default: it need not be signed.
	SignedBy []minisign.PublicKey
	// MaxAge is the age from which a collection is no seed; see snapshot.OpenOptions. Default: any age will do.
	MaxAge time.Duration
	// Client makes the requests to https and http URLs. It should not bound their time. Default: one that tells the hosts
	// to which it is redirected nothing of the URL, and does not leave https.
	Client *http.Client
	// Schemes are further ones, such as those of packages s3 and oci.
	Schemes map[string]Scheme
}

// ErrPlainHTTP: a snapshot that others can replace on its way, over http and without a signature, was refused.
var ErrPlainHTTP = errors.New("over http, without TLS, others can replace a snapshot that no signature protects " +
	"(use https, or give the public key that has to have signed it)")

// Seed returns the snapshot at a URL as a seed. It is opened anew for each informer. It fails with ErrPlainHTTP as
// Check does.
func Seed(from string, o Options) snapshot.Seed {
	return func(ctx context.Context, _ time.Time) (*snapshot.File, error) {
		if err := Check(from, o); err != nil {
			return nil, err
		}
		return Open(ctx, from, o)
	}
}

// Check returns what is wrong with a URL. It fails with ErrPlainHTTP for an http URL without Options.SignedBy.
func Check(from string, o Options) error {
	_, err := parse(from, o)
	if err == nil && strings.HasPrefix(strings.ToLower(from), "http://") && len(o.SignedBy) == 0 {
		err = ErrPlainHTTP
	}
	return err
}

// Open opens the snapshot at a URL. ctx ends the File's reads, too.
func Open(ctx context.Context, from string, o Options) (*snapshot.File, error) {
	at, err := parse(from, o)
	if err != nil {
		return nil, err
	}
	file, name, err := at.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the snapshot %s: %w", name, err)
	}
	return o.open(file, name)
}

// open opens a snapshot, or closes the file.
func (o Options) open(file File, name string) (*snapshot.File, error) {
	f, err := snapshot.NewFile(file, file.Size(),
		snapshot.OpenOptions{Identities: o.Identities, SignedBy: o.SignedBy, MaxAge: o.MaxAge, Name: name})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the snapshot %s: %w", name, err), file.Close())
	}
	return f, nil
}

// place is what a URL names.
type place struct {
	files Files
	file  string // empty: the newest
	name  string // of the files, for people; with file it is that of the URL
}

// parse returns what a URL names.
func parse(from string, o Options) (place, error) {
	if from == "" {
		return place{}, errors.New("the URL of the snapshot is empty")
	}
	if !strings.Contains(from, "://") {
		return onDisk(from), nil
	}
	u, err := url.Parse(from)
	if err != nil {
		return place{}, errors.New("the URL of the snapshot is malformed") // the error has the URL, and its secrets
	}
	if u.Path == "" {
		u.Path = "/"
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return place{}, fmt.Errorf("the URL of the snapshot names the host %s: write file:///path", u.Host)
		}
		path := u.Path
		if runtime.GOOS == "windows" { // C:\dir is file:///C:/dir
			path = filepath.FromSlash(strings.TrimPrefix(path, "/"))
		}
		return onDisk(path), nil
	case "http", "https":
		at := strings.LastIndexByte(u.Path, '/') + 1
		file, dir := u.Path[at:], *u
		if file == latestFile {
			u.Path, u.RawPath, dir.Path, file = u.Path[:at], "", u.Path[:at], ""
		}
		if dir.RawPath = ""; file == "" {
			return place{web{url: u, client: o.Client}, "", redacted(u)}, nil
		}
		dir.Path = u.Path[:at]
		return place{web{url: &dir, client: o.Client, file: u}, file, redacted(&dir)}, nil
	}
	open, ok := o.Schemes[u.Scheme]
	if !ok {
		known := append(slices.Sorted(maps.Keys(o.Schemes)), "https", "http", "file")
		return place{}, fmt.Errorf("the URL of the snapshot has the scheme %q, and known are %s", u.Scheme,
			strings.Join(known, ", "))
	}
	files, file, err := open(u)
	if err != nil {
		return place{}, fmt.Errorf("the URL of the snapshot: %w", err)
	}
	return place{files, file, strings.TrimSuffix(redacted(u), file)}, nil
}

// onDisk is what a path names. A directory that exists needs no slash at its end.
func onDisk(path string) place {
	if info, err := os.Stat(path); err == nil && info.IsDir() && !os.IsPathSeparator(path[len(path)-1]) {
		path += string(filepath.Separator)
	}
	dir, file := filepath.Split(path)
	if file == latestFile {
		file = ""
	}
	return place{directory(dir), file, dir}
}

// redacted returns a URL for people, without what may be credentials.
func redacted(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// open opens what the URL names, and returns the name of that for people.
func (p place) open(ctx context.Context) (file File, name string, err error) {
	if p.file != "" {
		file, err = bounded(ctx, p.files, p.file)
		if err != nil && strings.HasSuffix(p.name, "/") && !strings.HasSuffix(p.file, nameSuffix) {
			err = fmt.Errorf("%w (the URL of a repository, which has the newest, ends in a slash)", err)
		}
		return file, p.nameOf(p.file), err
	}
	one, err := p.latest(ctx)
	if err != nil {
		return nil, p.name, err
	}
	file, err = bounded(ctx, p.files, one)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, p.nameOf(one), err
	}
	if again, err := p.latest(ctx); err == nil && again != one { // it has been replaced and removed meanwhile
		one = again
		file, err := bounded(ctx, p.files, one)
		return file, p.nameOf(one), err
	}
	return nil, p.nameOf(one), err
}

// patience is how long a place may take to open a file, list or remove, and putPatience how long to read more of a file
// that is put there, which it may do in parts of some megabytes.
const (
	patience    = 2 * time.Minute
	putPatience = 5 * time.Minute
)

var (
	errPatience    = fmt.Errorf("nothing has come of it for %v", patience)
	errPutPatience = fmt.Errorf("nothing more of it was taken for %v", putPatience)
)

// bounded opens a file. ctx ends the reads, too, so patience must not.
func bounded(ctx context.Context, files Files, name string) (File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(errPatience) })
	f, err := files.Open(ctx, name)
	if err == nil && timer.Stop() {
		return canceled{f, cancel}, nil
	}
	if err == nil {
		err = f.Close()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return nil, err
}

// canceled is a file whose reads end with it.
type canceled struct {
	File
	cancel context.CancelCauseFunc
}

func (c canceled) Close() error {
	defer c.cancel(nil)
	return c.File.Close()
}

// nameOf names a file for people.
func (p place) nameOf(file string) string {
	if p.name == "" || strings.HasSuffix(p.name, "/") || strings.HasSuffix(p.name, string(filepath.Separator)) ||
		p.file != "" {
		return p.name + file
	}
	return p.name + ":" + file // a tag
}

// latestFile has the name of the newest snapshot and a line feed.
const latestFile = "latest"

// latest returns the name of the newest snapshot.
func (p place) latest(ctx context.Context) (string, error) {
	f, err := bounded(ctx, p.files, latestFile)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("no snapshot was put there yet, since there is no file %s: %w", latestFile, err)
		}
		return "", fmt.Errorf("which is the newest (the file %s): %w", latestFile, err)
	}
	text := make([]byte, min(f.Size(), maxName))
	_, err = f.ReadAt(text, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("which is the newest: %w", err)
	}
	name := strings.TrimSuffix(string(text), "\n")
	if !isName(name) {
		return "", fmt.Errorf("which is the newest: the file %s does not name a snapshot", latestFile)
	}
	return name, nil
}
