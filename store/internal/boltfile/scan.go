package boltfile

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// Scan reads the keys of a bucket in order, and fails if they are out of order. If a flipped bit made a branch page
// point back into its own tree, a plain cursor would loop for ever.
type Scan struct {
	c     *bolt.Cursor
	begun bool
	last  []byte // last is the last key read, memory of the transaction.
	// Err is the damage that made Next or Seek return nil.
	Err error
}

// ScanAfter returns a Scan of the keys after the given key. Keys are never empty, so "" is before the first key.
func ScanAfter(b *bolt.Bucket, after string) *Scan {
	return &Scan{c: b.Cursor(), last: []byte(after)}
}

func (s *Scan) Next() (k, v []byte) {
	switch {
	case s.Err != nil:
		return nil, nil
	case s.begun:
		return s.take(s.c.Next())
	}
	after := s.last
	if k, v = s.Seek(after); k != nil && bytes.Equal(k, after) {
		return s.take(s.c.Next())
	}
	return k, v
}

// Seek moves to the first key that is equal to or after the given key, and returns it with its value; nil at the end.
func (s *Scan) Seek(key []byte) (k, v []byte) {
	s.begun = true
	k, v = s.c.Seek(key)
	if k != nil && bytes.Compare(k, key) < 0 {
		return s.disorder()
	}
	s.last = k
	return k, v
}

func (s *Scan) take(k, v []byte) ([]byte, []byte) {
	if k != nil && bytes.Compare(k, s.last) <= 0 {
		return s.disorder()
	}
	s.last = k
	return k, v
}

func (s *Scan) disorder() (k, v []byte) {
	s.Err = &FaultError{What: "its keys are out of order"}
	return nil, nil
}

// SeekAfter moves the cursor to the first key after the given key, and returns it. Keys are never empty, so a nil key
// means the start of the bucket.
func SeekAfter(c *bolt.Cursor, after []byte) (k, v []byte) {
	k, v = c.Seek(after)
	if k != nil && bytes.Equal(k, after) {
		return c.Next()
	}
	return k, v
}
