package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"filippo.io/age"
)

// chunkSize is what age encrypts at once: where a part of the file was altered, as much as that can not be decrypted.
const chunkSize = 64 << 10

// gapless reads what can not be read as zeros, a chunk at a time.
type gapless struct {
	in   io.ReaderAt
	size int64
	pos  int64
}

func (g *gapless) Read(p []byte) (int, error) {
	if g.pos >= g.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), g.size-g.pos, chunkSize-g.pos%chunkSize))
	got, _ := g.in.ReadAt(p[:n], g.pos)
	clear(p[got:n])
	g.pos += int64(n)
	return n, nil
}

// decryptDamaged is decryptAt for a file that may be damaged. age decrypts one at random only if its end is whole.
func decryptDamaged(ctx context.Context, r io.ReaderAt, size int64, identities []age.Identity) (plain io.ReaderAt, plainSize int64, encrypted bool, err error) {
	plain, plainSize, encrypted, err = decryptAt(r, size, identities)
	if err == nil || !encrypted || errors.Is(err, ErrEncrypted) || errors.Is(err, ErrIdentity) {
		return plain, plainSize, encrypted, err
	}
	s, err := newRewinder(ctx, r, size, identities)
	if err != nil {
		return nil, 0, true, err
	}
	return s, s.size, true, nil
}

// rewinder reads an encrypted file whose end is missing: as a stream, which is begun anew to go back. It is safe for concurrent use.
type rewinder struct {
	in   io.ReaderAt
	size int64 // of what can be decrypted
	all  int64 // of in
	key  age.Identity

	mu  sync.Mutex
	r   io.Reader // guarded by mu
	pos int64     // of r; guarded by mu
}

// newRewinder decrypts the file once to find out how much can be. What can not be read is no end of it, but an error.
func newRewinder(ctx context.Context, in io.ReaderAt, size int64, identities []age.Identity) (*rewinder, error) {
	header, err := age.ExtractHeader(io.NewSectionReader(in, 0, size))
	if err != nil {
		return nil, cryptError(err)
	}
	key, err := age.DecryptHeader(header, identities...)
	if err != nil {
		return nil, cryptError(err)
	}
	// A passphrase costs a second each time.
	w := &rewinder{in: in, all: size, key: age.NewInjectedFileKeyIdentity(key)}
	once := &watched{ctx: ctx, in: io.NewSectionReader(in, 0, size)}
	r, err := age.Decrypt(once, w.key)
	if err == nil {
		w.size, _ = io.Copy(io.Discard, r) // to where it was cut or altered
	}
	if once.err != nil {
		return nil, fmt.Errorf("read the encrypted snapshot: %w", once.err)
	}
	if err != nil {
		return nil, cryptError(err)
	}
	return w, nil
}

// watched reads while ctx lasts, and keeps why it has ended, if not with the file.
type watched struct {
	ctx context.Context
	in  io.Reader
	err error
}

func (w *watched) Read(p []byte) (n int, err error) {
	if err = w.ctx.Err(); err == nil {
		n, err = w.in.Read(p)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

func (w *rewinder) rewindLocked() error {
	r, err := age.Decrypt(io.NewSectionReader(w.in, 0, w.all), w.key)
	if err != nil {
		return cryptError(err)
	}
	w.r, w.pos = r, 0
	return nil
}

func (w *rewinder) ReadAt(p []byte, off int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.r == nil || off < w.pos {
		if err := w.rewindLocked(); err != nil {
			return 0, err
		}
	}
	skipped, err := io.CopyN(io.Discard, w.r, off-w.pos)
	w.pos += skipped
	if err != nil {
		w.r = nil
		return 0, fmt.Errorf("decrypt the snapshot: %w", err)
	}
	n, err := io.ReadFull(w.r, p)
	w.pos += int64(n)
	if err != nil {
		w.r = nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}
