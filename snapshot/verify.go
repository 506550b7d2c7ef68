package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-dev/larder/entry"
)

// maxProblems is the maximum number of problems in a Report. One more line then says that there are others.
const maxProblems = 1000

// Report is the result of Verify.
type Report struct {
	Collections int
	Objects     int
	Bytes       int64
	// Unknown counts objects of unknown types, whose payloads were not decoded.
	Unknown int
	// Problems has a line for each problem; empty if the whole snapshot is sound.
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

// Verify reads the whole snapshot. It checks digests, the order of keys, counts and indexes, that every object has a
// UID, and that objects of known types can be decoded. Damage is in Report.Problems; only the end of ctx fails Verify.
func (f *File) Verify(ctx context.Context) (Report, error) {
	var report Report
	for _, c := range f.manifest.Collections {
		report.Collections++
		d := NewDecoder(c)
		err := f.Records(ctx, c.Identity, func(r entry.Entry) error {
			report.Objects++
			report.Bytes += int64(len(r.Payload))
			report.verify(d, r)
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return report, ctx.Err()
		case err != nil:
			report.problem("%v", err)
		}
	}
	for _, name := range f.manifest.Documents {
		switch _, err := f.Document(ctx, name); {
		case ctx.Err() != nil:
			return report, ctx.Err()
		case err != nil:
			report.problem("%v", err)
		}
	}
	return report, nil
}

// verify decodes the object of a record, compares its metadata with the record, and adds the problems to the report.
func (r *Report) verify(d *Decoder, rec entry.Entry) {
	if rec.UID == "" {
		r.problem("%s: %q has no UID", d.id, rec.Key)
	}
	u, err := d.Decode(rec)
	switch {
	case errors.Is(err, ErrUndecodable):
		r.Unknown++
	case err != nil:
		r.problem("%s: %v", d.id, err)
	case string(u.GetUID()) != rec.UID || u.GetResourceVersion() != rec.ResourceVersion:
		r.problem("%s: %q has another UID or resourceVersion than its record says", d.id, rec.Key)
	}
}
