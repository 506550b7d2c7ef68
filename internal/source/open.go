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
	// Wait is how long Open retries while the file is locked and no process answers on the socket: a sync may be
	// starting or stopping. Default 3 s; negative tries once.
	Wait time.Duration
	// Waiting is called once after half a second of retries. May be nil.
	Waiting func()
	// Logger is passed to the store.
	Logger *logr.Logger
	// Encryption has the keys of a sealed store. With nil, sealed entries are limited to their keys.
	Encryption *seal.Encryption
	// Identities are the identities for decrypting a snapshot; each is tried.
	Identities []age.Identity
	// SignedBy are public keys, one of which must have signed a snapshot. Default: no signature is required.
	SignedBy []minisign.PublicKey
}

const (
	defaultWait  = 3 * time.Second
	retryEvery   = 50 * time.Millisecond
	waitingAfter = 500 * time.Millisecond
)

// HeldError says that another process holds the file and does not answer on the socket.
type HeldError struct {
	// Path is the store's file, and Socket the path of its socket.
	Path, Socket string
	// Err is the error of connecting to the socket.
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

// Open opens the store or snapshot at path for reading; the file's first bytes say which it is. For a store that a sync
// holds it connects to the sync.
func Open(ctx context.Context, path string, o Options) (Source, error) {
	if is, err := snapshot.Is(path); err == nil && is { // for an unusable path the store returns the error
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
		if c, _, err := Dial(ctx, path); err == nil { // of a sync whose file another file has replaced
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
	src, dialErr, err := openOrDial(ctx, wait, o.Waiting, openFile, dialSync)
	if dialErr != nil {
		return nil, &HeldError{Path: path, Socket: socket, Err: dialErr}
	}
	return src, err
}

// openOrDial tries the file, and the socket if the file is locked, until one succeeds or wait is over.
func openOrDial(
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
		if waiting != nil && time.Since(begun) > waitingAfter {
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
