package boltfile

import "errors"

// Package store exports and documents these errors.
var (
	ErrLocked      = errors.New("the store is in use")
	ErrNewerFormat = errors.New("the store's format is newer than this program")
	ErrExists      = errors.New("there is a file of that name already")
	ErrForeign     = errors.New("the file is not a store of Larder")
	ErrClosed      = errors.New(
		"the store is closed (close it last, after its informers and all readers, as informer.Run does)")
	ErrReadOnly       = errors.New("the store is open for reading only")
	ErrNoSpace        = errors.New("no space left for the store")
	ErrOutcomeUnknown = errors.New("the store failed to reach the disk")
	ErrReplaced       = errors.New(
		"another file has taken the place of the store's file and is left alone: move it away to have the " +
			"store written there again, or end this process and start it again on that file")
	ErrOverwritten = errors.New("another file has been copied over the store's file while it was open, and nothing of " +
		"it is read: end this process, put the file there that is wanted, and start again")
	ErrStillWriting = errors.New(
		"the disk has not finished what was begun, and the file stays locked by this process until it has")
	ErrSlowDisk = errors.New("the disk has not finished a write for long")
)
