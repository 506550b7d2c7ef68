package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/larder-dev/larder/internal/base"
)

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
