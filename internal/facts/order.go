package facts

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Order is the order in which kubectl chooses among resources of the same name: the core group first, then the groups
// in the server's order, the preferred version of each group before all others. Groups and versions that the server
// does not list follow. The zero value is the order of an unknown server.
type Order struct {
	// group and version hold the positions of groups and group-versions in the server's lists, starting at 1. A missing
	// entry is not in the lists.
	group   map[string]int
	version map[schema.GroupVersion]int
}

// Order returns the order in which the server lists its groups and versions. A nil Discovery is an unknown server.
func (d *Discovery) Order() Order {
	o := Order{group: map[string]int{}, version: map[schema.GroupVersion]int{}}
	if d == nil {
		return o
	}
	for i, g := range d.Groups {
		o.group[g.Group.Name] = i + 1
		versions := append([]metav1.GroupVersionForDiscovery{g.Group.PreferredVersion}, g.Group.Versions...)
		for j, v := range versions {
			gv := schema.GroupVersion{Group: g.Group.Name, Version: v.Version}
			if o.version[gv] == 0 {
				o.version[gv] = j + 1
			}
		}
	}
	return o
}

func (o Order) Groups(a, b string) int {
	if a == b {
		return 0
	}
	if a == "" || b == "" {
		return len(a) - len(b)
	}
	if o.group[a] != o.group[b] {
		return ranked(o.group[a], o.group[b])
	}
	return cmp.Or(usualRank(a)-usualRank(b), strings.Compare(a, b))
}

func (o Order) Versions(a, b schema.GroupVersion) int {
	if o.version[a] != o.version[b] {
		return ranked(o.version[a], o.version[b])
	}
	return -version.CompareKubeAwareVersionStrings(a.Version, b.Version)
}

func (o Order) Resources(a, b schema.GroupVersionResource) int {
	return cmp.Or(o.tier(a.GroupVersion())-o.tier(b.GroupVersion()), o.Groups(a.Group, b.Group),
		o.Versions(a.GroupVersion(), b.GroupVersion()))
}

// tier returns 0 for core/v1, 1 for preferred versions, 2 for other versions, and 3 for groups that the server does not
// list.
func (o Order) tier(gv schema.GroupVersion) int {
	switch {
	case gv == schema.GroupVersion{Version: "v1"}:
		return 0
	case o.version[gv] == 1:
		return 1
	case o.group[gv.Group] > 0:
		return 2
	}
	return 3
}

// ranked compares two positions in a server's list. Position 0 means not in the list, and follows all others.
func ranked(a, b int) int {
	switch {
	case a == 0:
		return 1
	case b == 0:
		return -1
	}
	return a - b
}

// usualRank returns the usual position of a group in kube-apiserver's order: first Kubernetes' own groups, then groups
// of CustomResourceDefinitions, then the groups of metrics, which are aggregated.
func usualRank(group string) int {
	switch {
	case !strings.Contains(group, "."):
		return 0
	case strings.HasSuffix(group, "metrics.k8s.io"):
		return 3
	case strings.Count(group, ".") == 2 && strings.HasSuffix(group, ".k8s.io"):
		return 1
	}
	return 2
}
