//go:build !unix

package store

import (
	"errors"
	"os"
)

// volatileFile fails: this system has no file without a name.
func volatileFile() (*os.File, error) {
	return nil, errors.New("not possible on this system, so Options.MemoryWhileLocked is not either")
}
