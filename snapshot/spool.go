package snapshot

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
)

// spool stores a snapshot that arrives as a stream, since it must be complete before it can be read. Its temporary file
// has no name, and is encrypted with a key that exists only in memory.
type spool struct {
	f      *os.File
	sealed io.WriteCloser
	key    *age.X25519Identity
	// named is true if the temporary file still has a name, because the system cannot remove open files.
	named bool
}

func newSpool(name string) (*spool, error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name+rand.Text(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	s := &spool{f: f, key: key}
	s.named = os.Remove(f.Name()) != nil // Windows cannot remove an open file
	if s.sealed, err = age.Encrypt(f, key.Recipient()); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *spool) Write(p []byte) (int, error) { return s.sealed.Write(p) }

// open returns the complete snapshot for reading, until the spool is closed. Write must not be called afterwards.
func (s *spool) open() (*File, error) {
	if err := s.sealed.Close(); err != nil {
		return nil, err
	}
	info, err := s.f.Stat()
	if err != nil {
		return nil, err
	}
	return NewFile(s.f, info.Size(), OpenOptions{Identities: []age.Identity{s.key}})
}

func (s *spool) close() {
	_ = s.f.Close()
	if s.named {
		_ = os.Remove(s.f.Name())
	}
}
