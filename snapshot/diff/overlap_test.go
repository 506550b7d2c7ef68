package diff_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot/diff"
)

// podsOf returns a collection of pods, each written as namespace/name=label.
func podsOf(t *testing.T, r entry.Representation, namespace, labels string, pods ...[2]string) contentOf {
	t.Helper()
	of := contentOf{collection: collectionOf(core("pods"), "Pod", r)}
	of.collection.Identity.Namespace, of.collection.Identity.LabelSelector = namespace, labels
	for _, p := range pods {
		ns, name := p[0][:1], p[0][2:]
		of.records = append(of.records, recordOf(t, of.collection,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":%q,"uid":%q,"labels":{"app":%q}}}`,
				name, ns, p[0], p[1])))
	}
	return of
}

// TestDiffOfOverlaps checks that collections of different scopes are compared in their common part.
func TestDiffOfOverlaps(t *testing.T) {
	u := entry.Unstructured
	all := podsOf(t, u, "", "", [2]string{"a/x", "web"}, [2]string{"a/y", "db"}, [2]string{"b/x", "web"},
		[2]string{"c/x", "web"})
	for _, tc := range []struct {
		name         string
		a, b         memorySource
		want         []string
		scopes       []string
		onlyA, onlyB int
		same         int
	}{
		{"a namespace of all", memorySource{podsOf(t, u, "a", "", [2]string{"a/x", "web"}, [2]string{"a/z", "db"})},
			memorySource{all},
			[]string{"added a a/y", "removed a a/z"}, []string{"a "}, 0, 0, 1},
		{"the other way round", memorySource{all},
			memorySource{podsOf(t, u, "a", "", [2]string{"a/x", "web"}, [2]string{"a/z", "db"})},
			[]string{"removed a a/y", "added a a/z"}, []string{"a "}, 0, 0, 1},
		{"two namespaces", memorySource{podsOf(t, u, "a", ""), podsOf(t, u, "c", "", [2]string{"c/x", "new"})},
			memorySource{all},
			[]string{"added a a/x", "added a a/y", "changed c c/x"}, []string{"a ", "c "}, 0, 0, 0},
		{"a selector", memorySource{all},
			memorySource{podsOf(t, u, "", "app=web", [2]string{"a/x", "web"}, [2]string{"a/y", "web"}, [2]string{"b/x", "web"})},
			[]string{"added  a/y", "removed  c/x"}, []string{" app=web"}, 0, 0, 2},
		{"a selector in a namespace", memorySource{podsOf(t, u, "a", "", [2]string{"a/x", "web"}, [2]string{"a/y", "db"})},
			memorySource{podsOf(t, u, "", "app=web", [2]string{"a/x", "web"}, [2]string{"b/x", "web"})}, nil,
			[]string{"a app=web"}, 0, 0, 1},
		{"typed and unstructured", memorySource{podsOf(t, entry.Typed, "b", "")}, memorySource{all}, []string{"added b b/x"},
			[]string{"b "}, 0, 0, 0},
		{"other namespaces", memorySource{podsOf(t, u, "a", "", [2]string{"a/x", "web"})},
			memorySource{podsOf(t, u, "b", "", [2]string{"b/x", "web"})}, nil, nil, 1, 1, 0},
		{"two selectors", memorySource{podsOf(t, u, "", "app=web", [2]string{"a/x", "web"})},
			memorySource{podsOf(t, u, "", "app=db", [2]string{"a/y", "db"})}, nil, nil, 1, 1, 0},
		{"metadata", memorySource{podsOf(t, entry.Metadata, "a", "")}, memorySource{all}, nil, nil, 1, 1, 0},
		{"what is matched is not compared twice", memorySource{all, podsOf(t, u, "a", "")},
			memorySource{all, podsOf(t, u, "", "app=web")}, nil, nil, 1, 1, 4},
		{"nor are two parts that may share objects",
			memorySource{podsOf(t, u, "a", "", [2]string{"a/x", "web"}), podsOf(t, u, "", "app=web")}, memorySource{all},
			[]string{"added a a/y"}, []string{"a "}, 1, 0, 1},
	} {
		var got, scopes []string
		report, err := diff.Compare(t.Context(), tc.a, tc.b, diff.Options{}, func(c diff.Change) error {
			got = append(got, fmt.Sprintf("%s %s %s", c.Kind, c.Collection.Identity.Namespace, c.Key))
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		for _, o := range report.Overlaps {
			scopes = append(scopes, o.Scope.Namespace+" "+o.Scope.LabelSelector)
		}
		if d := cmp.Diff(tc.want, got) + cmp.Diff(tc.scopes, scopes); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
		if len(report.OnlyInA) != tc.onlyA || len(report.OnlyInB) != tc.onlyB || report.Same != tc.same {
			t.Errorf("%s: %+v", tc.name, report)
		}
		if equal := len(tc.want) == 0 && tc.onlyA+tc.onlyB == 0; report.Equal() != equal {
			t.Errorf("%s: Equal is %v", tc.name, report.Equal())
		}
	}
}

func TestOrderOfOverlaps(t *testing.T) {
	nodes := contentOf{collection: collectionOf(core("nodes"), "Node", entry.Unstructured)}
	later := contentOf{collection: nodes.collection,
		records: []entry.Entry{recordOf(t, nodes.collection,
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"n"}}`)}}
	all := podsOf(t, entry.Unstructured, "", "", [2]string{"a/x", "web"})
	part := podsOf(t, entry.Unstructured, "a", "")
	for _, tc := range []struct {
		b    memorySource
		want []string
	}{{memorySource{all, later}, []string{"a/x", "n"}}, {memorySource{later, all}, []string{"n", "a/x"}}} {
		var got []string
		if _, err := diff.Compare(t.Context(), memorySource{nodes, part}, tc.b, diff.Options{},
			func(c diff.Change) error {
				got = append(got, c.Key)
				return nil
			}); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%v, %v, want %v", got, err, tc.want)
		}
	}
}

// TestOverlapOfAbsentFields checks that no overlap is compared for a selector such as spec.unschedulable=false: the
// server treats an absent field as false, but the object does not say so.
func TestOverlapOfAbsentFields(t *testing.T) {
	all := contentOf{collection: collectionOf(core("nodes"), "Node", entry.Unstructured)}
	all.records = append(all.records, recordOf(t, all.collection,
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"n"},"spec":{"providerID":"p"}}`))
	for selector, overlaps := range map[string]int{"spec.unschedulable=false": 0, "spec.unschedulable!=true": 1,
		"spec.providerID=p": 1} {
		some := all
		some.collection.Identity.FieldSelector = selector
		report, err := diff.Compare(t.Context(), memorySource{all}, memorySource{some}, diff.Options{},
			func(c diff.Change) error {
				t.Errorf("%s: %s %s", selector, c.Kind, c.Key)
				return nil
			})
		if err != nil || len(report.Overlaps) != overlaps || len(report.OnlyInA) != 1-overlaps {
			t.Errorf("%s: %+v, %v", selector, report, err)
		}
	}
}
