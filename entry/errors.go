package entry

import "errors"

// ErrDamaged: the store's file, or a record or an index in it, does not have the contents that were written.
var ErrDamaged = errors.New("the store is damaged")

// ErrIncompatible: a stored object is undamaged, but this program cannot read it, because a program with another Go
// type, codec or record version wrote it. A relist that rewrites every body (ReplaceOptions.Rewrite) repairs it.
var ErrIncompatible = errors.New("the object does not fit this program's type (an informer of this program lists it " +
	"anew; to read it as it is, use the program that wrote it, or one with the same Go type and codec)")

// RecordError is the error for a record that cannot be read: it is damaged (ErrDamaged), or a newer program wrote it
// (ErrIncompatible). A caller that reads records in key order can continue after Key.
type RecordError struct {
	Key string
	Err error
}

func (e *RecordError) Error() string { return e.Err.Error() } // the error's text contains the key
func (e *RecordError) Unwrap() error { return e.Err }
