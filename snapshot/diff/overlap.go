package diff

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// Overlap is what two collections of different scopes have in common: one of them has all namespaces or objects, where
// the other one has some.
type Overlap struct {
	A, B snapshot.Collection
	// Scope is what both cover: the namespace and the selectors of the one that has them.
	Scope entry.Identity
}

// overlapOf returns what both cover. ok is false if that is nothing, or cannot be told: of different shards, of
// metadata and whole objects, of two different selectors, which may have nothing in common, and where objects do not
// say whether the field selector takes them.
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
		objectsTell(scope.FieldSelector)
	return scope, sameLabels && sameFields
}

// objectsTell says whether objects have what a field selector asks for. A server takes a field that JSON leaves out for
// false or 0, if that is its type.
func objectsTell(selector string) bool {
	parsed, err := fields.ParseSelector(selector)
	return err == nil && !slices.ContainsFunc(parsed.Requirements(),
		func(r fields.Requirement) bool { return r.Value == "false" || r.Value == "0" })
}

// overlapping finds, among the collections that one source has alone, those that cover a part of each other, and takes
// them out of the report. No object is in two of the pairs, nor in one of those that are matched.
func overlapping(report *Report, matched []pair) (pairs []pair) {
	var done []entry.Identity
	for _, p := range matched {
		done = append(done, p.b.Identity)
	}
	pairedA, pairedB := map[entry.Identity]bool{}, map[entry.Identity]bool{}
	for _, b := range report.OnlyInB {
		for _, a := range report.OnlyInA {
			scope, ok := overlapOf(a.Identity, b.Identity)
			if !ok || slices.ContainsFunc(done, func(id entry.Identity) bool { return mayShare(id, scope) }) {
				continue
			}
			done = append(done, scope)
			pairs = append(pairs, pair{a, b, &scope})
			pairedA[a.Identity], pairedB[b.Identity] = true, true
		}
	}
	report.OnlyInA = slices.DeleteFunc(report.OnlyInA, func(c snapshot.Collection) bool { return pairedA[c.Identity] })
	report.OnlyInB = slices.DeleteFunc(report.OnlyInB, func(c snapshot.Collection) bool { return pairedB[c.Identity] })
	return pairs
}

// mayShare says whether an object can be in both scopes: selectors may select the same.
func mayShare(a, b entry.Identity) bool {
	return a.GroupVersionResource == b.GroupVersionResource &&
		(a.Namespace == "" || b.Namespace == "" || a.Namespace == b.Namespace)
}

// within is a collection of src, and no more of it than is in the scope.
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

// only is one collection of a Source.
type only struct {
	snapshot.Source
	c snapshot.Collection
}

// Collections implements snapshot.Source.
func (o *only) Collections(context.Context) ([]snapshot.Collection, error) {
	return []snapshot.Collection{o.c}, nil
}
