package snapshot

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
)

// spool is a temporary file that a collection is kept in until it is whole: a snapshot, encrypted with a key that is in
// memory only.
type spool struct {
	f   *os.File
	buf *bufio.Writer
	w   *Writer
	key *age.X25519Identity
	// named: the file could not be removed while it is open.
	named bool
}

// newSpool makes one beside target, or in the directory for temporary files if that is empty.
func newSpool(target string, c Collection) (*spool, error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	f, err := spoolFile(target)
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	s := &spool{f: f, buf: bufio.NewWriterSize(f, writeBuffer), key: key}
	s.named = os.Remove(f.Name()) != nil // not on Windows
	s.w, err = NewWriter(s.buf, Header{}, WriterOptions{Recipients: []age.Recipient{key.Recipient()}})
	if err == nil {
		err = s.w.Begin(c)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func spoolFile(target string) (*os.File, error) {
	if target == "" {
		return os.CreateTemp("", "larder-*"+suffixNew+"list")
	}
	return os.OpenFile(target+suffixNew+rand.Text(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// replay calls fn with all that has been written.
func (s *spool) replay(ctx context.Context, fn func(entry.Entry) error) error {
	if err := errors.Join(s.w.End(), s.w.Close(), s.buf.Flush()); err != nil {
		return err
	}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := NewReader(s.f, ReaderOptions{Identities: []age.Identity{s.key}})
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := r.NextCollection(); err != nil {
		return err
	}
	return (&streamSource{r: r}).Records(ctx, entry.Identity{}, "", fn)
}

func (s *spool) close() {
	_ = s.f.Close()
	if s.named {
		_ = os.Remove(s.f.Name())
	}
}
