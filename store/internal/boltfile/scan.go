package boltfile

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// Scan reads the keys of a bucket in order, and verifies that they are: a branch
// page that a flipped bit made point back into its own tree would have a cursor
// go round in it for ever.
type Scan struct {
	c     *bolt.Cursor
	begun bool
	last  []byte // dies with the transaction
	// err is set when next has returned nil because of damage.
	Err error
}

// ScanAfter begins after the given key. Keys are never empty, so "" is before the first.
func ScanAfter(b *bolt.Bucket, after string) *Scan {
	return &Scan{c: b.Cursor(), last: []byte(after)}
}

// Next returns the next key and its value; nil at the end.
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

// Seek goes to the first key that is the given one or comes after it.
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
