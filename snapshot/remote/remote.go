package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
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
	// MaxAge is the age from which a snapshot is refused. Default: any age will do.
	MaxAge time.Duration
	// Client makes the requests to https and http URLs. It should not bound their time. Default: http.DefaultClient.
	Client *http.Client
	// Schemes are further ones, such as those of packages s3 and oci.
	Schemes map[string]Scheme
}

// ErrTooOld: the snapshot is older than Options.MaxAge.
var ErrTooOld = errors.New("the snapshot is too old")

// Seed returns the snapshot at a URL as a seed. It is opened anew for each informer.
func Seed(from string, o Options) snapshot.Seed {
	return func(ctx context.Context, _ time.Time) (*snapshot.File, error) { return Open(ctx, from, o) }
}

// Check returns what is wrong with a URL.
func Check(from string, o Options) error {
	_, err := parse(from, o)
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
		snapshot.OpenOptions{Identities: o.Identities, SignedBy: o.SignedBy, Name: name})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the snapshot %s: %w", name, err), file.Close())
	}
	if taken := f.Manifest().TakenAt; o.MaxAge > 0 && time.Since(taken) > o.MaxAge {
		return nil, errors.Join(fmt.Errorf("%w: %s was taken at %s, more than %v ago", ErrTooOld, name,
			taken.UTC().Format(time.RFC3339), o.MaxAge), f.Close())
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
	if !strings.Contains(from, "://") {
		dir, file := filepath.Split(from)
		return place{directory(dir), file, dir}, nil
	}
	u, err := url.Parse(from)
	if err != nil {
		return place{}, errors.New("the URL of the snapshot is malformed") // the error has the URL, and its secrets
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return place{}, fmt.Errorf("the URL of the snapshot names the host %s: write file:///path", u.Host)
		}
		dir, file := filepath.Split(u.Path)
		return place{directory(dir), file, dir}, nil
	case "http", "https":
		at := strings.LastIndexByte(u.Path, '/') + 1
		dir := *u
		dir.Path, dir.RawPath = u.Path[:at], ""
		w := web{url: &dir, client: cmp.Or(o.Client, http.DefaultClient)}
		if u.Path[at:] != "" {
			w.file = u
		}
		return place{w, u.Path[at:], redacted(&dir)}, nil
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

// redacted returns a URL for people, without what may be credentials.
func redacted(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// open opens what the URL names, and returns the name of that for people.
func (p place) open(ctx context.Context) (file File, name string, err error) {
	one := p.file
	if one == "" {
		if one, err = p.latest(ctx); err != nil {
			return nil, p.name, err
		}
	}
	file, err = p.files.Open(ctx, one)
	return file, p.nameOf(one), err
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
	f, err := p.files.Open(ctx, latestFile)
	if err != nil {
		return "", fmt.Errorf("which is the newest: %w", err)
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
