package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/query"
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

// Filter selects objects. Its zero value selects all.
type Filter struct {
	// Resources are plural names, kinds, singular or short names, each with or without a group (pods, deployments.apps,
	// Widget.example.com) or version and group (deployments.v1.apps). Case does not count. Empty selects all resources.
	Resources []string `json:"resources,omitempty"`
	// Namespaces selects the objects of these namespaces; empty selects all, cluster-scoped objects included.
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels and Fields are label and field selectors as in kubectl; empty selects everything. Package query documents the
	// names in Fields.
	Labels string `json:"labels,omitempty"`
	Fields string `json:"fields,omitempty"`
}

// Empty reports whether f selects all objects.
func (f Filter) Empty() bool {
	return len(f.Resources) == 0 && len(f.Namespaces) == 0 && f.Labels == "" && f.Fields == ""
}

type filter struct {
	Filter
	query query.Query
	// decodes is true if a label or field selector needs decoded objects.
	decodes bool
}

func newFilter(f Filter) (*filter, error) {
	out := &filter{Filter: f, decodes: f.Labels != "" || f.Fields != ""}
	var err error
	if f.Labels != "" {
		if out.query.Labels, err = labels.Parse(f.Labels); err != nil {
			return nil, fmt.Errorf("label selector: %w", err)
		}
	}
	if f.Fields != "" {
		if out.query.Fields, err = fields.ParseSelector(f.Fields); err != nil {
			return nil, fmt.Errorf("field selector: %w", err)
		}
	}
	return out, nil
}

// Takes reports whether the filter can select any object of collection c. A filter by namespace selects nothing of a
// collection of cluster-scoped objects. If c has no objects, its scope may be unknown, and Takes may return true.
func (f Filter) Takes(c Collection) bool {
	if len(f.Resources) > 0 && !slices.ContainsFunc(f.Resources, func(name string) bool { return isNamed(c, name) }) {
		return false
	}
	if len(f.Namespaces) == 0 {
		return true
	}
	if ns := c.Identity.Namespace; ns != "" {
		return slices.Contains(f.Namespaces, ns)
	}
	return mayBeNamespaced(c)
}

// mayBeNamespaced reports whether objects of a collection can be in a namespace. An empty collection counts as
// namespaced if no server has described its resource (no short names, categories, columns or selectable fields), since
// the program that stored it may not have known the scope.
func mayBeNamespaced(c Collection) bool {
	r := c.Resource
	described := len(r.ShortNames) > 0 || len(r.Categories) > 0 || len(r.Columns) > 0 ||
		len(r.SelectableFields) > 0
	return r.Namespaced || c.Objects == 0 && !described
}

// describe returns the filter's restrictions that apply to collection c, as text for people.
func (f *filter) describe(c Collection) (out []string) {
	if len(f.Namespaces) > 0 && c.Identity.Namespace == "" {
		out = append(out, "only namespaces "+strings.Join(f.Namespaces, ", "))
	}
	if f.Labels != "" {
		out = append(out, "only label selector "+f.Labels)
	}
	if f.Fields != "" {
		out = append(out, "only field selector "+f.Fields)
	}
	return out
}

func (f *filter) takes(c Collection, d *Decoder, r entry.Entry) (bool, error) {
	if len(f.Namespaces) > 0 && c.Identity.Namespace == "" {
		namespace, _, ok := strings.Cut(r.Key, "/")
		if !ok || !slices.Contains(f.Namespaces, namespace) {
			return false, nil
		}
	}
	if !f.decodes {
		return true, nil
	}
	u, err := d.Decode(r)
	if err != nil {
		return false, fmt.Errorf("filter: %w", err)
	}
	return f.query.Matches(u)
}

// isNamed reports whether name, in any of the forms of Filter.Resources, means the resource of collection c.
func isNamed(c Collection, name string) bool {
	id, r := c.Identity, c.Resource
	first, rest, qualified := strings.Cut(name, ".")
	if qualified && !strings.EqualFold(rest, id.Group) &&
		!strings.EqualFold(strings.TrimSuffix(rest, "."), strings.TrimSuffix(id.Version+"."+id.Group, ".")) {
		return false
	}
	for _, n := range append([]string{id.Resource, r.Kind, r.Singular}, r.ShortNames...) {
		if n != "" && strings.EqualFold(n, first) {
			return true
		}
	}
	return false
}
