package changelog

import "errors"

// Errors of cursors, which package store exports.
var (
	ErrCursorOpen = errors.New("a durable handler of that name is registered")
	ErrNoCursor   = errors.New("no durable handler of that name")
	ErrReset      = errors.New("the durable handler begins anew")
)
