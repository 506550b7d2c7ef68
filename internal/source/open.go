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

// Options are the options of Open. The zero value is valid.
type Options struct {
	// Wait is how long Open retries while the file is locked and no process answers on the socket: a larder sync may be
	// starting or stopping. Default 3 s; a negative value means no retries.
	Wait time.Duration
	// Waiting, unless it is nil, is called once if Open still retries after half a second.
	Waiting func()
	Logger  *logr.Logger
	// Encryption has the keys of a store with sealed objects. Without keys only the names of sealed objects are
	// readable.
	Encryption *seal.Encryption
	// Identities are age identities. Open tries them all to decrypt a snapshot.
	Identities []age.Identity
	// SignedBy are public keys. A snapshot must be signed with one of them. Default: no signature is required.
	SignedBy []minisign.PublicKey
}

const (
	defaultWait  = 3 * time.Second
	retryEvery   = 50 * time.Millisecond
	waitingAfter = 500 * time.Millisecond
)

// HeldError says that another process has locked the store's file and does not answer on the socket.
type HeldError struct {
	// Path is the store's file, and Socket the path of the socket beside the file.
	Path, Socket string
	Err          error
}

func (e *HeldError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("%s: another process holds the store, and it is no larder sync: there is no %s", e.Path, e.Socket)
	}
	return fmt.Sprintf("%s: another process holds the store, and it does not answer on %s (%v)", e.Path, e.Socket, e.Err)
}

func (e *HeldError) Unwrap() []error { return []error{store.ErrLocked, e.Err} }

// Open opens the store or snapshot at path for reading; the file's first bytes tell which. If a larder sync holds the
// store, Open connects to that sync.
func Open(ctx context.Context, path string, o Options) (Source, error) {
	if is, err := snapshot.Is(path); err == nil && is { // opening the store returns the error for an unusable path
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
		if c, _, err := Dial(ctx, path); err == nil { // another file has replaced the sync's file
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

// openOrDial opens the store's file, or connects to the socket if the file is locked. It retries until one of the two
// succeeds or wait is over.
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
