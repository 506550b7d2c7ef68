package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// ageMagic begins every age file.
const ageMagic = "age-encryption.org/"

// decrypt looks at the first bytes and, where they are those of an age file, has w read what is in it.
func (w *window) decrypt(identities []age.Identity) (encrypted bool, err error) {
	data, err := w.peek(len(armor.Header))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the snapshot: %w", err)
	}
	if bytes.HasPrefix(data, []byte(armor.Header)) {
		return false, fmt.Errorf("it is an age file in PEM armor; take that off with age --decrypt: %w", ErrNotSnapshot)
	}
	if !bytes.HasPrefix(data, []byte(ageMagic)) {
		return false, nil
	}
	if len(identities) == 0 {
		return true, ErrEncrypted
	}
	plain, err := age.Decrypt(io.MultiReader(bytes.NewReader(bytes.Clone(w.buf)), w.r), identities...)
	if err != nil {
		return true, cryptError(err)
	}
	*w = window{r: plain}
	return true, nil
}

// cryptError says what age's error means.
func cryptError(err error) error {
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) || errors.Is(err, age.ErrIncorrectIdentity) {
		return fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	return &DamageError{Block: -1, Reason: "its encryption cannot be read", Err: err}
}

// decryptAt looks at the first bytes of r and, where they are those of an age file, returns what is in it.
func decryptAt(
	r io.ReaderAt, size int64, identities []age.Identity,
) (plain io.ReaderAt, plainSize int64, encrypted bool, err error) {
	if encrypted, err = isEncrypted(r, size); err != nil || !encrypted {
		return r, size, false, err
	}
	if len(identities) == 0 {
		return nil, 0, true, ErrEncrypted
	}
	plain, plainSize, err = age.DecryptReaderAt(r, size, identities...)
	if err != nil {
		return nil, 0, true, cryptError(err)
	}
	return plain, plainSize, true, nil
}

// isEncrypted says whether r is an age file.
func isEncrypted(r io.ReaderAt, size int64) (bool, error) {
	w := &window{r: io.NewSectionReader(r, 0, size), mem: make([]byte, 2*len(armor.Header))}
	encrypted, err := w.decrypt(nil)
	if errors.Is(err, ErrEncrypted) {
		err = nil
	}
	return encrypted, err
}
