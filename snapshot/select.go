package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// SelectOptions filter and redact a Source, for saving or for reading. The zero value selects everything.
type SelectOptions struct {
	Filter    Filter
	Redaction Redaction
}

// Select returns src with o applied. A collection that may lack objects or values has MustRelist set, and Filtered and
// Redacted describe the loss. Its counts are 0 if it may lack objects. Only selectors by label or field and redactions
// decode objects, and fail with ErrUndecodable for an unknown type. Only changed objects are encoded again.
func Select(src Source, o SelectOptions) (Source, error) {
	f, err := newFilter(o.Filter)
	if err != nil {
		return nil, err
	}
	r, err := newRedaction(o.Redaction)
	if err != nil {
		return nil, err
	}
	return &selected{src, f, r}, nil
}

type selected struct {
	src       Source
	filter    *filter
	redaction redaction
}

func (s *selected) Collections(ctx context.Context) ([]Collection, error) {
	all, err := s.src.Collections(ctx)
	if err != nil {
		return nil, err
	}
	var out []Collection
	for _, c := range all {
		if s.filter.Takes(c) {
			out = append(out, s.describe(c))
		}
	}
	return out, nil
}

func (s *selected) describe(c Collection) Collection {
	var why []string
	if filtered := s.filter.describe(c); len(filtered) > 0 {
		c.Filtered = append(c.Filtered[:len(c.Filtered):len(c.Filtered)], filtered...)
		c.Objects, c.Bytes, c.Blocks = 0, 0, 0
		why = append(why, "objects were left out ("+strings.Join(filtered, "; ")+")")
	}
	if redacted := s.redaction.of(c.Identity.GroupResource()).describe(); len(redacted) > 0 {
		c.Redacted = append(c.Redacted[:len(c.Redacted):len(c.Redacted)], redacted...)
		why = append(why, "objects were redacted ("+strings.Join(redacted, "; ")+")")
	}
	if c.MustRelist == "" {
		c.MustRelist = strings.Join(why, ", ")
	}
	return c
}

func (s *selected) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	c, err := s.collection(ctx, id)
	if err != nil {
		return err
	}
	decoder, redaction := NewDecoder(c), s.redaction.of(c.Identity.GroupResource())
	redacts := len(redaction.describe()) > 0
	return s.src.Records(ctx, id, func(r entry.Entry) error {
		if ok, err := s.filter.takes(c, decoder, r); err != nil || !ok {
			return err
		}
		if redacts {
			if err := redaction.record(decoder, &r); err != nil {
				return err
			}
		}
		return fn(r)
	})
}

func (s *selected) collection(ctx context.Context, id entry.Identity) (Collection, error) {
	all, err := s.src.Collections(ctx)
	if err != nil {
		return Collection{}, err
	}
	for _, c := range all {
		if c.Identity.ID() == id.ID() && s.filter.Takes(c) {
			return c, nil
		}
	}
	return Collection{}, fmt.Errorf("%s: %w", id, ErrNoCollection)
}
