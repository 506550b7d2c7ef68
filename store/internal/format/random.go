package format

import (
	"crypto/rand"
	"encoding/binary"
)

// RandomID returns a random id other than 0, which means no id.
func RandomID() uint64 {
	var id [8]byte
	for {
		_, _ = rand.Read(id[:]) // never fails
		if n := binary.BigEndian.Uint64(id[:]); n != 0 {
			return n
		}
	}
}
