package diff

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// Overlap is the common part of two collections of different scopes: one of them has all namespaces or objects, the
// other some of them.
type Overlap struct {
	A, B snapshot.Collection
	// Scope is the common part: the namespace and the selectors of the narrower collection.
	Scope entry.Identity
}

// overlapOf returns the scope that both cover. ok is false if there is none, or it cannot be told: for different
// shards, for metadata and whole objects, for two different selectors, and if the objects do not tell whether a field
// selector selects them.
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

// objectsTell reports whether objects have the fields of a selector. For a server, a field that JSON omits is false or
// 0 if that is its type.
func objectsTell(selector string) bool {
	parsed, err := fields.ParseSelector(selector)
	return err == nil && !slices.ContainsFunc(parsed.Requirements(),
		func(r fields.Requirement) bool { return r.Value == "false" || r.Value == "0" })
}

// overlapping pairs collections of report.OnlyInA and OnlyInB that overlap, and removes them from the report. No object
// is in two of the pairs, nor in a matched one.
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

// mayShare reports whether an object can be in both scopes. Different selectors may select the same object.
func mayShare(a, b entry.Identity) bool {
	return a.GroupVersionResource == b.GroupVersionResource &&
		(a.Namespace == "" || b.Namespace == "" || a.Namespace == b.Namespace)
}

// within returns a Source with one collection of src, without the objects outside the scope.
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

// only is a Source with one collection of another Source.
type only struct {
	snapshot.Source
	c snapshot.Collection
}

// Collections implements snapshot.Source.
func (o *only) Collections(context.Context) ([]snapshot.Collection, error) {
	return []snapshot.Collection{o.c}, nil
}
