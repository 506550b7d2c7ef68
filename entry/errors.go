package entry

import "errors"

// ErrDamaged: the store's file, or a record or an index in it, does not have the contents that were written.
var ErrDamaged = errors.New("the store is damaged")

// ErrIncompatible: a stored object is undamaged, but this program cannot read it, because it was written by a program
// with another Go type, codec or record version. A relist that rewrites every body (ReplaceOptions.Rewrite) repairs it.
var ErrIncompatible = errors.New("the stored object does not fit this program's type")
