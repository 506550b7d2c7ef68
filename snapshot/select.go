package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// SelectOptions says what is left out of a Source, for saving or for reading. The zero value leaves out nothing.
type SelectOptions struct {
	Filter    Filter
	Redaction Redaction
}

// note adds to h what o leaves out.
func (o SelectOptions) note(h *Header) {
	if !o.Filter.Empty() {
		h.Filter = &o.Filter
	}
	if !o.Redaction.Empty() {
		h.Redaction = &o.Redaction
	}
}

// Select returns src without the objects and values that o leaves out. If a collection may lack some, its MustRelist is
// set, Filtered and Redacted say what, and, if it may lack objects, its counts are 0. Objects are decoded only if a
// selector or the redaction looks into them, which fails with ErrUndecodable for an unknown type. They are encoded
// again only if they change.
func Select(src Source, o SelectOptions) (Source, error) {
	f, err := newFilter(o.Filter)
	if err != nil {
		return nil, err
	}
	if _, err := compilePatterns(o.Redaction.Annotations); err != nil {
		return nil, fmt.Errorf("annotations: %w", err)
	}
	if _, err := compilePatterns(o.Redaction.Env); err != nil {
		return nil, fmt.Errorf("environment variables: %w", err)
	}
	return &selected{src: src, options: o, filter: f}, nil
}

type selected struct {
	src     Source
	options SelectOptions
	filter  *filter
}

// Collections implements Source.
func (s *selected) Collections(ctx context.Context) ([]Collection, error) {
	all, err := s.src.Collections(ctx)
	if err != nil {
		return nil, err
	}
	var out []Collection
	for _, c := range all {
		if !s.filter.Takes(c) {
			continue
		}
		if c, err = s.describe(c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// describe returns c as it is after s has been applied.
func (s *selected) describe(c Collection) (Collection, error) {
	redact, err := newRedaction(s.options.Redaction, c.Identity.GroupResource())
	if err != nil {
		return c, err
	}
	var why []string
	if filtered := s.filter.describe(c); len(filtered) > 0 {
		c.Filtered = append(c.Filtered[:len(c.Filtered):len(c.Filtered)], filtered...)
		c.Objects, c.Bytes, c.Blocks = 0, 0, 0
		why = append(why, "objects were left out ("+strings.Join(filtered, "; ")+")")
	}
	if redact != nil {
		c.Redacted = append(c.Redacted[:len(c.Redacted):len(c.Redacted)], redact.described...)
		why = append(why, "objects were redacted ("+strings.Join(redact.described, "; ")+")")
	}
	if c.MustRelist == "" {
		c.MustRelist = strings.Join(why, ", ")
	}
	return c, nil
}

// Records implements Source.
func (s *selected) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	c, err := s.collection(ctx, id)
	if err != nil {
		return err
	}
	redact, err := newRedaction(s.options.Redaction, c.Identity.GroupResource())
	if err != nil {
		return err
	}
	p := &pass{selected: s, decoder: NewDecoder(c), redact: redact}
	if len(s.filter.Namespaces) > 0 && c.Identity.Namespace == "" {
		p.byKey = s.filter
	}
	return s.src.Records(ctx, id, func(r entry.Entry) error {
		ok, err := p.record(&r)
		if err != nil || !ok {
			return err
		}
		return fn(r)
	})
}

// collection returns the collection with that identity in src.
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

// pass applies a selection to one collection.
type pass struct {
	*selected
	decoder *Decoder
	redact  *redaction // nil if nothing of the collection is redacted
	byKey   *filter    // nil if every key is taken
}

// record reports whether r is selected, and redacts it.
func (p *pass) record(r *entry.Entry) (bool, error) {
	if p.byKey != nil && !p.byKey.takesKey(r.Key) {
		return false, nil
	}
	if p.filter.decodes {
		u, err := p.decoder.Decode(*r)
		if err != nil {
			return false, fmt.Errorf("filter: %w", err)
		}
		ok, err := p.filter.query.Matches(u)
		if err != nil || !ok {
			return false, err
		}
	}
	if p.redact == nil {
		return true, nil
	}
	u, err := p.decoder.decodeExactly(*r)
	if err != nil {
		return false, fmt.Errorf("redact: %w", err)
	}
	if p.redact.apply(u.Object) {
		return true, p.decoder.encode(r, u)
	}
	return true, nil
}
