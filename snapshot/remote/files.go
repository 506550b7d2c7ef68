package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/larder-dev/larder/internal/wholefile"
)

// Files is where snapshots are: a directory, or what is reached through a network. Methods fail with fs.ErrNotExist for
// a file that is not there, and name no credentials in errors.
type Files interface {
	// Open opens a file for reading at random. ctx ends the reads, too.
	Open(ctx context.Context, name string) (File, error)
	// List returns the files.
	List(ctx context.Context) ([]Info, error)
	// Put makes a file of all that r has, or replaces it, in one step.
	Put(ctx context.Context, name string, r io.ReadSeeker) error
	// Remove removes a file.
	Remove(ctx context.Context, name string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.Closer
	// Size is in bytes.
	Size() int64
}

// Info is what Files.List says of a file.
type Info struct {
	Name string
	Size int64 // in bytes
}

// Scheme makes the Files of the URLs with a scheme. file is the name of the file that the URL names; empty if it names
// all of them, as a URL does whose path ends in a slash.
type Scheme func(u *url.URL) (files Files, file string, err error)

// ErrReadOnly: what is at the URL can only be read.
var ErrReadOnly = errors.New("snapshots at an HTTP URL can only be read; write to the directory or bucket behind it")

// directory is the Files of a directory.
type directory string

// diskFile is a file of a directory.
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
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() { // else it was removed meanwhile
			all = append(all, Info{e.Name(), info.Size()})
		}
	}
	return all, err
}

func (d directory) Put(_ context.Context, name string, r io.ReadSeeker) error {
	ours := func(name string) bool { return name == latestFile || isName(name) }
	return wholefile.Write(filepath.Join(string(d), name), wholefile.Options{Ours: ours}, func(f *os.File) error {
		_, err := io.Copy(f, r)
		return err
	})
}

func (d directory) Remove(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(d), name))
}

// web is the Files at an HTTP URL, whose path ends in a slash.
type web struct {
	url    *url.URL
	client Client
	file   *url.URL // the URL of the one file of which it is, as it was given; may be nil
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

// Client makes requests; an http.Client does.
type Client interface {
	Do(request *http.Request) (*http.Response, error)
}

// CacheControl is how long caches may keep a file: snapshots never change, and which one is the latest does.
func CacheControl(name string) string {
	if name == latestFile {
		return "no-cache"
	}
	return "max-age=86400, immutable"
}

// leavesHTTPS refuses to leave https, and tells the next host nothing of the URL, which may have credentials.
func leavesHTTPS(request *http.Request, via []*http.Request) error {
	request.Header.Del("Referer")
	switch {
	case len(via) >= 10:
		return errors.New("it redirects ten times")
	case via[len(via)-1].URL.Scheme == "https" && request.URL.Scheme != "https":
		return errors.New("it redirects from https to " + request.URL.Scheme)
	}
	return nil
}

var defaultClient = &http.Client{CheckRedirect: leavesHTTPS}
