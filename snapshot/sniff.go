package snapshot

import (
	"bytes"
	"errors"
	"io"
	"os"

	"filippo.io/age/armor"

	"github.com/larder-dev/larder/snapshot/internal/layout"
)

// Is says whether the file at path begins as a snapshot does: as it is, or encrypted by age, in armor too. It does not
// say that Open can read it. What is not a regular file is none.
func Is(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() { // opening a pipe might wait for ever
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	begin := make([]byte, len(armor.Header))
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	begin = begin[:n]
	for _, known := range []string{layout.Magic, ageMagic, armor.Header} {
		if bytes.HasPrefix(begin, []byte(known)) {
			return true, nil
		}
	}
	return false, nil
}
