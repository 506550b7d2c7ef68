package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/larder-dev/larder/entry"
)

// maxProblems is how many problems a Report lists; one more line says that there are others.
const maxProblems = 1000

// Report is what Verify found.
type Report struct {
	// Collections, Objects and Bytes are how much was read; Bytes is the sum of the payloads.
	Collections int
	Objects     int
	Bytes       int64
	// Unknown is how many objects are of types that this program does not know: their payloads were not decoded.
	Unknown int
	// Problems are empty if the snapshot is whole and every object in it is good.
	Problems []string
}

func (r *Report) problem(format string, args ...any) {
	switch n := len(r.Problems); {
	case n < maxProblems:
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	case n == maxProblems:
		r.Problems = append(r.Problems, "there are more problems")
	}
}

// Verify reads a whole snapshot and checks all that can be: digests, the order of keys, counts and the index; that
// every object has a UID, and that it can be decoded if its type is known. Damage ends it and is one of the problems;
// its error is of the reading.
func Verify(ctx context.Context, r io.Reader, o ReaderOptions) (Report, error) {
	var report Report
	s, err := NewReader(r, o)
	if err == nil {
		defer s.Close()
		err = s.verify(ctx, &report)
	}
	var d *DamageError
	if errors.As(err, &d) {
		report.problem("%v; what follows was not read", d)
		err = nil
	}
	return report, err
}

func (r *Reader) verify(ctx context.Context, report *Report) error {
	for {
		c, err := r.NextCollection()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		report.Collections++
		if err := r.verifyRecords(ctx, NewDecoder(c), report); err != nil {
			return err
		}
	}
}

func (r *Reader) verifyRecords(ctx context.Context, d *Decoder, report *Report) error {
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		report.Objects++
		report.Bytes += int64(len(rec.Payload))
		if report.Objects%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if rec.UID == "" {
			report.problem("%s: %q has no UID", d.id, rec.Key)
		}
		verifyObject(d, rec, report)
	}
}

// verifyObject decodes an object and compares it with what its record says.
func verifyObject(d *Decoder, rec entry.Entry, report *Report) {
	m, err := d.metadata(rec)
	switch {
	case errors.Is(err, ErrUndecodable):
		report.Unknown++
	case err != nil:
		report.problem("%s: %v", d.id, err)
	case string(m.GetUID()) != rec.UID || m.GetResourceVersion() != rec.ResourceVersion:
		report.problem("%s: %q has another UID or resourceVersion than its record says", d.id, rec.Key)
	}
}
