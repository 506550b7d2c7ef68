package diff

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// pair is a collection of each source, to be compared. If part is set, only the objects in scope are compared.
type pair struct {
	a, b  snapshot.Collection
	scope entry.Identity
	part  bool
}

// matchCollections pairs the collections of two sources: first equal identities, then a typed and an unstructured
// collection of the same objects, then collections that overlap. No object is in two pairs. Collections without a pair
// are added to the report.
func matchCollections(ctx context.Context, a, b snapshot.Source, report *Report) (pairs []pair, err error) {
	inA, err := a.Collections(ctx)
	if err != nil {
		return nil, err
	}
	inB, err := b.Collections(ctx)
	if err != nil {
		return nil, err
	}
	isPaired := func(id entry.Identity, of func(pair) snapshot.Collection) bool {
		return slices.ContainsFunc(pairs, func(p pair) bool { return of(p).Identity == id })
	}
	ofA, ofB := func(p pair) snapshot.Collection { return p.a }, func(p pair) snapshot.Collection { return p.b }
	for round := range 3 {
		for _, b := range inB {
			for _, a := range inA {
				scope, ok := overlapOf(a.Identity, b.Identity)
				part := round == 2
				switch {
				case part: // other collections may overlap too, but an object must not be in two pairs
					ok = ok && !slices.ContainsFunc(pairs, func(p pair) bool { return mayShare(p.scope, scope) })
				case isPaired(a.Identity, ofA), isPaired(b.Identity, ofB):
					ok = false
				default:
					ok = ok && sameScope(a.Identity, b.Identity) && (round == 1 || a.Identity == b.Identity)
				}
				if ok {
					pairs = append(pairs, pair{a, b, scope, part})
				}
			}
		}
	}
	for _, c := range inA {
		if !isPaired(c.Identity, ofA) {
			report.OnlyInA = append(report.OnlyInA, c)
		}
	}
	for _, c := range inB {
		if !isPaired(c.Identity, ofB) {
			report.OnlyInB = append(report.OnlyInB, c)
		}
	}
	at := func(p pair) int {
		return slices.IndexFunc(inB, func(c snapshot.Collection) bool { return c.Identity == p.b.Identity })
	}
	slices.SortStableFunc(pairs, func(x, y pair) int { return cmp.Compare(at(x), at(y)) })
	return pairs, nil
}

// sameScope reports whether the identities a and b differ at most in the representation (typed or unstructured).
func sameScope(a, b entry.Identity) bool {
	a.Representation = b.Representation
	return a == b
}

// Overlap is the common part of two collections of different scopes. Either A or B has all namespaces or all objects,
// the other collection only some.
type Overlap struct {
	A, B snapshot.Collection
	// Scope is the common part: the namespace and the selectors of the narrower collection.
	Scope entry.Identity
}

// overlapOf returns the scope that both identities cover. ok is false if they have nothing in common, or if that is
// unknown: for different shards, for metadata and whole objects, for two different selectors, and for a field selector
// that needs the server (decidable).
func overlapOf(a, b entry.Identity) (scope entry.Identity, ok bool) {
	sameForm := a.Representation == b.Representation || a.Representation != entry.Metadata &&
		b.Representation != entry.Metadata
	otherNamespace := a.Namespace != "" && b.Namespace != "" && a.Namespace != b.Namespace
	if a.GroupVersionResource != b.GroupVersionResource || !sameForm || a.ShardSelector != b.ShardSelector ||
		otherNamespace {
		return scope, false
	}
	scope = b
	if scope.Namespace == "" {
		scope.Namespace = a.Namespace
	}
	scope.LabelSelector = cmp.Or(a.LabelSelector, b.LabelSelector)
	scope.FieldSelector = cmp.Or(a.FieldSelector, b.FieldSelector)
	sameLabels := a.LabelSelector == "" || b.LabelSelector == "" || a.LabelSelector == b.LabelSelector
	sameFields := a.FieldSelector == b.FieldSelector || (a.FieldSelector == "" || b.FieldSelector == "") &&
		decidable(scope.FieldSelector)
	return scope, sameLabels && sameFields
}

// decidable reports whether objects contain enough to evaluate a field selector without the server. A server treats an
// omitted boolean or number as false or 0; the stored object does not show that.
func decidable(selector string) bool {
	parsed, err := fields.ParseSelector(selector)
	return err == nil && !slices.ContainsFunc(parsed.Requirements(),
		func(r fields.Requirement) bool { return r.Value == "false" || r.Value == "0" })
}

// mayShare reports whether one object can be in both scopes. Different selectors may select the same object.
func mayShare(a, b entry.Identity) bool {
	return a.GroupVersionResource == b.GroupVersionResource &&
		(a.Namespace == "" || b.Namespace == "" || a.Namespace == b.Namespace)
}

// within returns a Source with one collection of src, restricted to the objects in a scope.
func within(src snapshot.Source, c snapshot.Collection, scope entry.Identity) (snapshot.Source, error) {
	var f snapshot.Filter
	if c.Identity.Namespace == "" && scope.Namespace != "" {
		f.Namespaces = []string{scope.Namespace}
	}
	if c.Identity.LabelSelector != scope.LabelSelector {
		f.Labels = scope.LabelSelector
	}
	if c.Identity.FieldSelector != scope.FieldSelector {
		f.Fields = scope.FieldSelector
	}
	return snapshot.Select(&only{src, c}, snapshot.SelectOptions{Filter: f})
}

type only struct {
	snapshot.Source
	c snapshot.Collection
}

func (o *only) Collections(context.Context) ([]snapshot.Collection, error) {
	return []snapshot.Collection{o.c}, nil
}
