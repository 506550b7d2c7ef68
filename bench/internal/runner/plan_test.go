package runner

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func describe(groups []group) []string {
	var out []string
	for _, g := range groups {
		var names []string
		for _, s := range g.scenarios {
			names = append(names, s.Name)
		}
		out = append(out, fmt.Sprintf("real=%t %d %s: %s", g.real, g.n, g.kind.Name, strings.Join(names, " ")))
	}
	return out
}

// TestGroups checks that scenarios too fast for a real server run on the embedded server, and so do kinds with too many
// objects for a real server.
func TestGroups(t *testing.T) {
	const onReal = "restart restart-handler restart-changed cold cold-handler cold-transform sync relist reads"
	for _, c := range []struct {
		name string
		o    Options
		want []string
	}{
		{"everything", Options{Pods: []int{10, 100}, ConfigMaps: 5, Widgets: 7}, []string{
			"real=true 10 pods: " + onReal,
			"real=true 100 pods: " + onReal,
			"real=true 5 configmaps: restart restart-handler cold relist",
			"real=false 10 pods: updates-hot updates-unheard updates-spread latency flash",
			"real=false 100 pods: updates-hot updates-unheard updates-spread latency flash",
			"real=false 7 widgets: restart restart-handler cold",
		}},
		{
			"one scenario",
			Options{Pods: []int{10}, Only: regexp.MustCompile("^(latency)$")}, []string{"real=false 10 pods: latency"},
		},
		{
			"no real server",
			Options{Pods: []int{10}, EmbeddedOnly: true, Only: regexp.MustCompile("^(cold)$")},
			[]string{"real=false 10 pods: cold"},
		},
	} {
		if got := describe(c.o.groups()); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
