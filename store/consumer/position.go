package consumer

import "errors"

// Position is the position of a durable handler in the changelog of a collection.
type Position struct {
	// Seq is the offset: the handler has acknowledged every change up to this number, except the changes of the keys in
	// Failing. While it is Replaying, it has also not acknowledged the objects with keys after After.
	Seq uint64
	// Failing holds the keys that have changes up to Seq that are not acknowledged, with the number of the first such
	// change. It is shared: do not modify it.
	Failing map[string]uint64
	// Replaying says that the handler receives every object, in key order, and has acknowledged the objects up to After.
	// Seq does not move meanwhile.
	Replaying bool
	After     string
	// Notified says that the handler has been notified that it will receive every object again.
	Notified bool
	// Why is the reason why the handler last began anew.
	Why ResetReason
	// Types is the fingerprint of the Go types that the handler received the objects in; empty if it is not known.
	Types string
}

// ResetReason is the reason why a durable handler receives every object.
type ResetReason string

// The reasons why a durable handler receives every object.
const (
	// ResetNew says that no handler of that name was registered.
	ResetNew ResetReason = "new"
	// ResetBehind says that tombstones which the handler had not acknowledged were dropped, because there were too many
	// or they were too old.
	ResetBehind ResetReason = "behind"
	// ResetTypes says that the program's Go types have changed, and stored objects may have fields that the handler has
	// not seen.
	ResetTypes ResetReason = "types"
	// ResetDamage says that the file was damaged, and objects or changes of the collection may have been lost.
	ResetDamage ResetReason = "damage"
)

// Errors of cursors.
var (
	// ErrOpen says that a durable handler of that name is registered in this process.
	ErrOpen = errors.New("a durable handler of that name is registered")
	// ErrNone says that no durable handler of that name has ever been registered, or that it was forgotten.
	ErrNone = errors.New("no durable handler of that name")
	// ErrReset says that the handler was made to receive every object again after Cursor.Position was called: call
	// Position again.
	ErrReset = errors.New("the durable handler begins anew")
)

// Info is the state of a durable handler in the file.
type Info struct {
	Name string
	Position
	// Behind is an upper bound of the number of changes that the handler has not acknowledged. While it is Replaying,
	// the objects that it has yet to receive are not included.
	Behind uint64
}
