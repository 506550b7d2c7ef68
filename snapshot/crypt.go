package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"
)

const ageMagic = "age-encryption.org/"

// decryptAt returns a reader of the decrypted contents of r if r begins like an age file, and otherwise r itself.
func decryptAt(
	r io.ReaderAt, size int64, identities []age.Identity,
) (plain io.ReaderAt, plainSize int64, encrypted bool, err error) {
	begin := make([]byte, min(size, int64(len(armor.Header))))
	if n, err := r.ReadAt(begin, 0); n < len(begin) {
		return nil, 0, false, fmt.Errorf("read the snapshot: %w", err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte(armor.Header)):
		return nil, 0, true, fmt.Errorf("it is an age file in PEM armor; take that off with age --decrypt: %w",
			ErrNotSnapshot)
	case !bytes.HasPrefix(begin, []byte(ageMagic)):
		return r, size, false, nil
	case len(identities) == 0:
		return nil, 0, true, ErrEncrypted
	}
	plain, plainSize, err = age.DecryptReaderAt(r, size, identities...)
	var none *age.NoIdentityMatchError
	switch {
	case err == nil:
	case errors.As(err, &none) || errors.Is(err, age.ErrIncorrectIdentity):
		err = fmt.Errorf("%w: %w", ErrIdentity, err)
	default:
		err = &DamageError{Block: -1, Reason: "its encryption cannot be read", Err: err}
	}
	return plain, plainSize, true, err
}
