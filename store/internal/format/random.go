package format

import (
	"crypto/rand"
	"encoding/binary"
)

// RandomID returns a random id that is not 0, which stands for none.
func RandomID() uint64 {
	var id [8]byte
	for {
		_, _ = rand.Read(id[:]) // never fails
		if n := binary.BigEndian.Uint64(id[:]); n != 0 {
			return n
		}
	}
}
