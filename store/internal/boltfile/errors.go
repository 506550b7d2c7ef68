package boltfile

import "errors"

// These errors are exported by package store, which documents them.
var (
	ErrLocked  = errors.New("the store is in use")
	ErrForeign = errors.New("the file is not a store of Larder")
	ErrClosed  = errors.New("the store is closed")
	ErrNoSpace = errors.New("no space left for the store")
)
