package snapshot

import (
	"bytes"
	"errors"
	"io"
	"os"

	"filippo.io/age/armor"

	"github.com/larder-dev/larder/snapshot/internal/layout"
)

// Is reports whether path is a regular file that begins like a snapshot or an age file. Open may still fail.
func Is(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() { // only a regular file is opened: opening a pipe can block forever
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // the file was opened for reading, so an error of Close does not matter
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
