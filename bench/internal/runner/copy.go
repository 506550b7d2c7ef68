package runner

import (
	"errors"
	"io"
	"os"
)

// copyPage is how much copyFile writes at a time. The kernel's account is of whole folios of its cache, which are as large as the write
// that made them: after a copy in one piece, a changed page would be counted as megabytes.
const copyPage = 4096

// copyFile makes a copy that is on the disk: a case is not to write it, nor to find pages that are dirty already, which the kernel would not count.
func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	// The bare interfaces keep io from copying in the kernel, in pieces of its own choice.
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, copyPage))
	return errors.Join(err, out.Sync())
}
