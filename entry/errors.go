package entry

import "errors"

// ErrDamaged: the file, or a record or an index in it, is not what was written.
var ErrDamaged = errors.New("the store is damaged")

// ErrIncompatible: a stored object is undamaged, but this program cannot
// read it: another one, with another Go type or codec, wrote it. A relist
// that writes every body anew (ReplaceOptions.Rewrite) repairs it.
var ErrIncompatible = errors.New("the stored object does not fit this program's type")
