package seal

import "errors"

// Errors of encryption.
var (
	// ErrWrongKey: the file is sealed, and none of the given keys fits. Nothing has been changed. Open the file with the
	// key that sealed it (after the current one, for a rotation). If that key is lost, so are the sealed objects: use
	// another file, into which they are listed again.
	ErrWrongKey = errors.New("the keys do not fit")
	// ErrSealed: the collection is sealed, and the store was opened without Options.Encryption. The error has the ids of
	// the keys that are needed. The names of objects can be read (Info, Keys, Refs).
	ErrSealed = errors.New("it is sealed, and the store was opened without keys")
)
