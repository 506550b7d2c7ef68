package seal

import "errors"

// Errors of encryption.
var (
	// ErrWrongKey says that the file is sealed, and that none of the given keys fits. The file was not changed. Open it
	// with the key that sealed it (for a rotation, put that key after the current one). If that key is lost, so are the
	// sealed objects: use another file, into which they are listed again.
	ErrWrongKey = errors.New("the keys do not fit")
	// ErrSealed says that the collection is sealed, and that the store was opened without Options.Encryption. The error
	// has the ids of the needed keys. The names of objects can be read (Info, Keys, Refs).
	ErrSealed = errors.New("it is sealed, and the store was opened without keys")
)
