package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// SaveSource writes a snapshot of a Source that nobody changes, such as another snapshot, to the file at path, as
// SaveStore does. o.Header.TakenAt should be when the contents were so.
func SaveSource(ctx context.Context, src Source, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, _ string) (Saved, error) { return save(ctx, src, w, o) })
}

// SaveStream writes the snapshot that comes from a stream, which is not encrypted, to the file at path, as SaveStore
// does: its bytes as they are, encrypted to o.Recipients if there are any. It reads to the end of the snapshot and
// verifies it on the way; what is not whole leaves nothing. Of o Recipients, KeepExisting, Accept and Progress count.
func SaveStream(ctx context.Context, in io.Reader, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, _ string) (Saved, error) {
		saved, err := saveStream(ctx, in, w, o)
		if err != nil {
			err = fmt.Errorf("save: %w", err)
		}
		return saved, err
	})
}

func saveStream(ctx context.Context, in io.Reader, w io.Writer, o SaveOptions) (saved Saved, err error) {
	counted := &countingWriter{w: w}
	buffered := bufio.NewWriterSize(counted, writeBuffer)
	var sealed io.WriteCloser = nopCloser{buffered}
	if len(o.Recipients) > 0 {
		if sealed, err = age.Encrypt(buffered, o.Recipients...); err != nil {
			return saved, err
		}
	}
	r, err := NewReader(io.TeeReader(in, sealed), ReaderOptions{})
	if err != nil {
		return saved, err
	}
	defer r.Close()
	saved.LeftOut = r.Header().LeftOut
	p := progress{tell: o.Progress}
	for err == nil {
		err = streamCollection(ctx, r, &p, &saved)
	}
	if !errors.Is(err, io.EOF) {
		return saved, err
	}
	if err := errors.Join(sealed.Close(), buffered.Flush()); err != nil {
		return saved, err
	}
	saved.Objects, saved.Bytes, saved.Size = p.now.Objects, p.now.Bytes, counted.n
	return saved, nil
}

// streamCollection reads the next collection; io.EOF says that there is none.
func streamCollection(ctx context.Context, r *Reader, p *progress, saved *Saved) error {
	c, err := r.NextCollection()
	if err != nil {
		return err
	}
	p.now.Collection = c.Identity
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		p.done(rec)
	}
	saved.Collections = append(saved.Collections, r.Collection())
	p.report()
	return nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
