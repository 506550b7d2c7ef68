package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"
	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// Options are the options of Open. The zero value works.
type Options struct {
	// Wait is how long to try while the file is locked and nobody answers: a sync that is
	// starting or stopping. Default 3 s; negative tries once.
	Wait time.Duration
	// Waiting is called once it has tried for half a second. May be nil.
	Waiting func()
	// Logger is given to the store.
	Logger *logr.Logger
	// Encryption has the keys of a store that is sealed; nil reads names of what is sealed, and the rest.
	Encryption *seal.Encryption
	// Identities are tried in turn on a snapshot that is encrypted.
	Identities []age.Identity
	// SignedBy are public keys, of which one must have signed a snapshot. Default: it need not be signed.
	SignedBy []minisign.PublicKey
}

const (
	defaultWait = 3 * time.Second
	retryEvery  = 50 * time.Millisecond
	tellAfter   = 500 * time.Millisecond
)

// HeldError says that another process holds the file and does not answer on the socket.
type HeldError struct {
	// Path is the store's file, Socket where its holder was expected.
	Path, Socket string
	// Err is why the socket did not do.
	Err error
}

// Error implements error.
func (e *HeldError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("%s: another process holds the store, and it is no larder sync: there is no %s", e.Path, e.Socket)
	}
	return fmt.Sprintf("%s: another process holds the store, and it does not answer on %s (%v)", e.Path, e.Socket, e.Err)
}

// Unwrap makes errors.Is(err, store.ErrLocked) true.
func (e *HeldError) Unwrap() []error { return []error{store.ErrLocked, e.Err} }

// Open opens the store or snapshot at path for reading, as its first bytes decide: the file itself, or if a sync holds
// the store, that sync.
func Open(ctx context.Context, path string, o Options) (Source, error) {
	if is, err := snapshot.Is(path); err == nil && is { // whatever is wrong with the path, the store says it
		return OpenSnapshot(ctx, path, o)
	}
	socket, err := SocketPath(path)
	if err != nil {
		return nil, err
	}
	openFile := func() (Source, error) {
		s, err := store.Open(path, store.Options{ReadOnly: true, LockTimeout: -1, Logger: o.Logger, Encryption: o.Encryption})
		if err != nil {
			return nil, err
		}
		if c, _, err := Dial(ctx, path); err == nil { // of a sync whose file this one has replaced
			return c, s.Close()
		}
		return NewFile(s), nil
	}
	dialSync := func() (Source, error) {
		c, _, err := Dial(ctx, path)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	wait := o.Wait
	if wait == 0 {
		wait = defaultWait
	}
	src, dialErr, err := either(ctx, wait, o.Waiting, openFile, dialSync)
	if dialErr != nil {
		return nil, &HeldError{Path: path, Socket: socket, Err: dialErr}
	}
	return src, err
}

// either tries the file and, while that is locked, the socket, again and again until wait is over.
func either(
	ctx context.Context, wait time.Duration, waiting func(), openFile, dialSync func() (Source, error),
) (src Source, dialErr, err error) {
	begun := time.Now()
	deadline := begun.Add(wait)
	for {
		src, err = openFile()
		if err == nil || !errors.Is(err, store.ErrLocked) {
			return src, nil, err
		}
		switch src, dialErr = dialSync(); {
		case dialErr == nil:
			return src, nil, nil
		case errors.Is(dialErr, ErrOtherVersion):
			return nil, nil, dialErr
		}
		if !time.Now().Before(deadline) {
			return nil, dialErr, nil
		}
		if waiting != nil && time.Since(begun) > tellAfter {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(retryEvery):
		}
	}
}
