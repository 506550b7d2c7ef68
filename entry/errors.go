package entry

import "errors"

// ErrDamaged means that the store's file, or a record or an index in it, differs from the written contents.
var ErrDamaged = errors.New("the store is damaged")

// ErrIncompatible means that a stored object is undamaged, but unreadable for this program, because a program with
// another Go type, codec or record version wrote it. A relist that rewrites every payload (ReplaceOptions.Rewrite)
// repairs it.
var ErrIncompatible = errors.New("the object does not fit this program's type (an informer of this program lists it " +
	"anew; to read it as it is, use the program that wrote it, or one with the same Go type and codec)")

// RecordError is the error for an unreadable record. It wraps ErrDamaged, or ErrIncompatible if a newer program wrote
// the record. A caller that reads records in key order can continue after Key.
type RecordError struct {
	Key string
	Err error
}

func (e *RecordError) Error() string { return e.Err.Error() } // The text of Err contains Key.
func (e *RecordError) Unwrap() error { return e.Err }
