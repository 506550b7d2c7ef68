package seal

import "errors"

// Errors of encryption.
var (
	// ErrWrongKey: the file is sealed, and not with a key that was given. Nothing has been changed. It can be opened only
	// with the key that it is sealed with (behind the current one, for a rotation); if that is lost, what is sealed is
	// too, and has to be listed anew into another file.
	ErrWrongKey = errors.New("the keys do not fit")
	// ErrSealed: the collection is sealed, and the store was opened without Options.Encryption; the error names the keys
	// that it needs by their ids. Its names can be read (Info, Keys, Refs).
	ErrSealed = errors.New("it is sealed, and the store was opened without keys")
)
