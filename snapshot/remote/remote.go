package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/larder-dev/larder/snapshot"
)

// Options are the options of Seed and Open. The zero value works.
type Options struct {
	// Identities are tried in turn if the snapshot is encrypted.
	Identities []age.Identity
	// MaxAge is the age from which a snapshot is refused. Default: any age will do.
	MaxAge time.Duration
	// Client makes the requests. It should not bound their time. Default: http.DefaultClient.
	Client *http.Client
}

// ErrTooOld: the snapshot is older than Options.MaxAge.
var ErrTooOld = errors.New("the snapshot is too old")

// Seed returns the snapshot at a URL as a seed. It is opened anew for each informer.
func Seed(from string, o Options) snapshot.Seed {
	return func(ctx context.Context, _ time.Time) (*snapshot.File, error) { return Open(ctx, from, o) }
}

// Check returns what is wrong with a URL.
func Check(from string) error {
	_, _, err := parse(from)
	return err
}

// Open opens the snapshot at a URL. ctx ends the File's reads, too.
func Open(ctx context.Context, from string, o Options) (*snapshot.File, error) {
	name, u, err := parse(from)
	if err != nil {
		return nil, err
	}
	open := snapshot.OpenOptions{Identities: o.Identities, Name: name}
	var f *snapshot.File
	if u == nil {
		f, err = snapshot.Open(name, open)
	} else {
		f, err = openHTTP(ctx, u, o.Client, open)
	}
	if err != nil {
		return nil, fmt.Errorf("open the snapshot %s: %w", name, err)
	}
	if taken := f.Manifest().TakenAt; o.MaxAge > 0 && time.Since(taken) > o.MaxAge {
		return nil, errors.Join(fmt.Errorf("%w: %s was taken at %s, more than %v ago", ErrTooOld, name,
			taken.UTC().Format(time.RFC3339), o.MaxAge), f.Close())
	}
	return f, nil
}

// parse returns the name of a snapshot for people, and its URL; nil if the name is a path.
func parse(from string) (name string, u *url.URL, err error) {
	if !strings.Contains(from, "://") {
		return from, nil, nil
	}
	u, err = url.Parse(from)
	if err != nil {
		return "", nil, errors.New("the URL of the snapshot is malformed") // the error has the URL, and its secrets
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return "", nil, fmt.Errorf("the URL of the snapshot names the host %s: write file:///path", u.Host)
		}
		return u.Path, nil, nil
	case "http", "https":
		return redacted(u), u, nil
	}
	return "", nil, fmt.Errorf("the URL of the snapshot has the scheme %q, and only https, http and file are known",
		u.Scheme)
}

// redacted returns a URL for people, without what may be credentials.
func redacted(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// openHTTP opens a snapshot at an HTTP URL.
func openHTTP(ctx context.Context, u *url.URL, client *http.Client, o snapshot.OpenOptions) (*snapshot.File, error) {
	if client == nil {
		client = http.DefaultClient
	}
	r := &reader{ctx: ctx, client: client, url: u, name: o.Name}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	f, err := snapshot.NewFile(r, r.size, o)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return f, nil
}
