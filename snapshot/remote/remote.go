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

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/snapshot"
)

// Options are the options of the functions that take a URL. The zero value works for https, http, file and paths.
type Options struct {
	Identities []age.Identity
	// SignedBy has public keys, one of which must have signed the snapshot. Default: no signature is needed.
	SignedBy []minisign.PublicKey
	// MaxAge bounds the age of a seed's collection; see snapshot.OpenOptions. Default: no bound.
	MaxAge time.Duration
	// Client sends the requests to https and http URLs. It should not have a Timeout. Default: a client that sends no
	// Referer to the target of a redirect, and follows none from https to http.
	Client *http.Client
	// Schemes are further URL schemes, such as s3.Scheme and oci.Scheme.
	Schemes map[string]Scheme
}

// ErrPlainHTTP: the URL of a seed is http, and no signature is required, so anyone on the network could replace it.
var ErrPlainHTTP = errors.New("over http, without TLS, others can replace a snapshot that no signature protects " +
	"(use https, or give the public key that has to have signed it)")

// Seed returns the snapshot at a URL as a seed for informers. Each informer opens it again. Seed fails with
// ErrPlainHTTP for an http URL without Options.SignedBy.
func Seed(from string, o Options) snapshot.Seed {
	return func(ctx context.Context, _ time.Time) (*snapshot.File, error) {
		if err := Check(from, o); err != nil {
			return nil, err
		}
		return Open(ctx, from, o)
	}
}

// Check validates a URL, without a request. It fails with ErrPlainHTTP for an http URL without Options.SignedBy.
func Check(from string, o Options) error {
	_, err := parse(from, o)
	if err == nil && strings.HasPrefix(strings.ToLower(from), "http://") && len(o.SignedBy) == 0 {
		err = ErrPlainHTTP
	}
	return err
}

// Open opens the snapshot at a URL. The end of ctx also ends the File's reads.
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

func (o Options) open(file File, name string) (*snapshot.File, error) {
	f, err := snapshot.NewFile(file, file.Size(),
		snapshot.OpenOptions{Identities: o.Identities, SignedBy: o.SignedBy, MaxAge: o.MaxAge, Name: name})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the snapshot %s: %w", name, err), file.Close())
	}
	return f, nil
}

type location struct {
	files Files
	file  string // name of the file; empty for the newest snapshot
	name  string // name of the location in messages: the URL of the repository, or of the file's directory
}

func parse(from string, o Options) (location, error) {
	if from == "" {
		return location{}, errors.New("the URL of the snapshot is empty")
	}
	if !strings.Contains(from, "://") {
		return onDisk(from), nil
	}
	u, err := url.Parse(from)
	if err != nil {
		// The error of url.Parse is not returned, because it quotes the URL, which may have credentials.
		return location{}, errors.New("the URL of the snapshot is malformed")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return location{}, fmt.Errorf("the URL of the snapshot names the host %s: write file:///path", u.Host)
		}
		path := u.Path
		if runtime.GOOS == "windows" { // file:///C:/dir stands for C:\dir
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
			return location{web{url: u, client: o.Client}, "", redacted(u)}, nil
		}
		dir.Path = u.Path[:at]
		return location{web{url: &dir, client: o.Client, file: u}, file, redacted(&dir)}, nil
	}
	open, ok := o.Schemes[u.Scheme]
	if !ok {
		known := append(slices.Sorted(maps.Keys(o.Schemes)), "https", "http", "file")
		return location{}, fmt.Errorf("the URL of the snapshot has the scheme %q, and known are %s", u.Scheme,
			strings.Join(known, ", "))
	}
	files, file, err := open(u)
	if err != nil {
		return location{}, fmt.Errorf("the URL of the snapshot: %w", err)
	}
	return location{files, file, strings.TrimSuffix(redacted(u), file)}, nil
}

// onDisk returns the location at a path on the local disk. An existing directory needs no slash at its end.
func onDisk(path string) location {
	if info, err := os.Stat(path); err == nil && info.IsDir() && !os.IsPathSeparator(path[len(path)-1]) {
		path += string(filepath.Separator)
	}
	dir, file := filepath.Split(path)
	if file == latestFile {
		file = ""
	}
	return location{directory(dir), file, dir}
}

// redacted returns a URL for messages, without possible credentials.
func redacted(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

func (p location) open(ctx context.Context) (file File, name string, err error) {
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
	// If the newest snapshot was replaced and removed meanwhile, its successor is opened.
	if again, err := p.latest(ctx); err == nil && again != one {
		one = again
		file, err := bounded(ctx, p.files, one)
		return file, p.nameOf(one), err
	}
	return nil, p.nameOf(one), err
}

// requestTimeout is the timeout of opening, listing and removing files. uploadTimeout is the timeout between two reads
// of a file that is uploaded; some uploads read parts of several megabytes.
const (
	requestTimeout = 2 * time.Minute
	uploadTimeout  = 5 * time.Minute
)

var (
	errRequestTimeout = fmt.Errorf("nothing has come of it for %v", requestTimeout)
	errUploadTimeout  = fmt.Errorf("nothing more of it was taken for %v", uploadTimeout)
)

// bounded opens a file within requestTimeout. The timeout does not apply to reads, but the end of ctx ends them.
func bounded(ctx context.Context, files Files, name string) (File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(requestTimeout, func() { cancel(errRequestTimeout) })
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

// canceled is a file that cancels the context of its reads when it is closed.
type canceled struct {
	File
	cancel context.CancelCauseFunc
}

func (c canceled) Close() error {
	defer c.cancel(nil)
	return c.File.Close()
}

func (p location) nameOf(file string) string {
	if p.name == "" || strings.HasSuffix(p.name, "/") || strings.HasSuffix(p.name, string(filepath.Separator)) ||
		p.file != "" {
		return p.name + file
	}
	return p.name + ":" + file // in an OCI registry, file is a tag
}

// latestFile is the file that contains the name of the newest snapshot and a line feed.
const latestFile = "latest"

func (p location) latest(ctx context.Context) (string, error) {
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

// Files is a set of files with snapshots: a directory, or a remote store. Methods fail with fs.ErrNotExist for a
// missing file. Errors have no credentials.
type Files interface {
	// Open opens a file for random reads. The end of ctx also ends the reads.
	Open(ctx context.Context, name string) (File, error)
	List(ctx context.Context) ([]Info, error)
	// Put creates or replaces a file with the contents of r, in one step.
	Put(ctx context.Context, name string, r io.ReadSeeker) error
	Remove(ctx context.Context, name string) error
}

// File is an open file for random reads.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Info has the name and the size in bytes of a file of a Files.
type Info struct {
	Name string
	Size int64 // size of the file in bytes
}

// Scheme returns the Files for a URL, and the name of the file in the URL; "" for a repository (path ends in a slash).
type Scheme func(u *url.URL) (files Files, file string, err error)

// ErrReadOnly: snapshots at an HTTP URL can only be read.
var ErrReadOnly = errors.New("snapshots at an HTTP URL can only be read; write to the directory or bucket behind it")

type directory string

type diskFile struct {
	*os.File
	size int64
}

func (f diskFile) Size() int64 { return f.size }

func (d directory) Open(_ context.Context, name string) (File, error) {
	f, err := os.Open(filepath.Join(string(d), name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		err = errors.New("it is a directory")
	case err == nil && !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return diskFile{f, info.Size()}, nil
}

func (d directory) List(context.Context) (all []Info, _ error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		// Info fails if the file was removed meanwhile.
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			all = append(all, Info{e.Name(), info.Size()})
		}
	}
	return all, err
}

func (d directory) Put(_ context.Context, name string, r io.ReadSeeker) error {
	ours := func(name string) bool { return name == latestFile || isName(name) }
	return base.WriteFile(filepath.Join(string(d), name), base.WriteOptions{Ours: ours}, func(f *os.File) error {
		_, err := io.Copy(f, r)
		return err
	})
}

func (d directory) Remove(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(d), name))
}

// web implements Files for reading at an HTTP URL whose path ends in a slash.
type web struct {
	url    *url.URL
	client Client
	file   *url.URL // URL of the only file, unchanged; nil for a repository
}

func (w web) Open(ctx context.Context, name string) (File, error) {
	if w.file != nil {
		return OpenURL(ctx, w.client, w.file)
	}
	if name == latestFile {
		return openURL(ctx, w.client, w.url.JoinPath(name), maxName)
	}
	return OpenURL(ctx, w.client, w.url.JoinPath(name))
}

func (w web) List(context.Context) ([]Info, error)             { return nil, ErrReadOnly }
func (w web) Put(context.Context, string, io.ReadSeeker) error { return ErrReadOnly }
func (w web) Remove(context.Context, string) error             { return ErrReadOnly }

// Client sends requests; *http.Client implements it.
type Client interface {
	Do(request *http.Request) (*http.Response, error)
}

// CacheControl returns the Cache-Control header of a file: snapshots never change, and the file latest does.
func CacheControl(name string) string {
	if name == latestFile {
		return "no-cache"
	}
	return "max-age=86400, immutable"
}

// checkRedirect fails for a redirect from https to http. It removes the Referer, since the URL may have credentials.
func checkRedirect(request *http.Request, via []*http.Request) error {
	request.Header.Del("Referer")
	switch {
	case len(via) >= 10:
		return errors.New("it redirects ten times")
	case via[len(via)-1].URL.Scheme == "https" && request.URL.Scheme != "https":
		return errors.New("it redirects from https to " + request.URL.Scheme)
	}
	return nil
}

var defaultClient = &http.Client{CheckRedirect: checkRedirect}
