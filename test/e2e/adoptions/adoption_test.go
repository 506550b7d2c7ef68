package adoptions

import (
	"fmt"
	"strings"
)

// adoption is a third-party program that a patch adapts to Larder.
type adoption struct {
	name string
	// module, version and sum identify the program's source. sum is the go.sum hash.
	module, version, sum string
	main                 string
	tests                []string
	adapter              bool
	// requires are module versions that the program needs to compile with Larder's client-go, patched or not.
	requires []string
	// held are the resources that Larder's store holds. Without Larder the program lists them at each start.
	held []string
	// scenario returns the objects on which the program works, and a check of the program's work.
	scenario func(w *world) scenario
}

var adoptions = []adoption{
	{
		name:   "sample-controller",
		module: "k8s.io/sample-controller", version: "v0.37.0",
		sum:  "h1:cqpf0swqFAxz9s7lXwq2Xb1Q7TSV+W6eVTa8ujzJimE=",
		main: ".", tests: []string{"./..."},
		held:     []string{"deployments", "foos"},
		scenario: newFoos,
	},
	{
		name:   "descheduler",
		module: "sigs.k8s.io/descheduler", version: "v0.36.0",
		sum:  "h1:fBemfJD1RhmbsdH94lKwGMOwQcbsrw67A5IK2c2fANA=",
		main: "./cmd/descheduler", tests: []string{"./pkg/...", "./cmd/..."},
		requires: []string{"k8s.io/apiserver@v0.37.0", "k8s.io/component-base@v0.37.0", "k8s.io/component-helpers@v0.37.2"},
		held:     []string{"namespaces", "nodes", "persistentvolumeclaims", "pods"},
		scenario: newTaints,
	},
	{
		name:   "lws",
		module: "sigs.k8s.io/lws", version: "v0.9.0",
		sum:  "h1:DcJCgxjjoGOx//QHZkeKpyiblxYq70aCRZNYSfykWyI=",
		main: "./cmd", tests: []string{"./pkg/...", "./cmd/...", "./api/..."},
		adapter:  true,
		requires: []string{"k8s.io/component-helpers@v0.37.2"},
		held: []string{"controllerrevisions", "disaggregatedsets", "leaderworkersets", "pods", "services",
			"statefulsets"},
		scenario: newGroups,
	},
}

func (a adoption) row(lines int) string {
	return fmt.Sprintf("| [%s](%s.patch) | %s | %d | %s |", a.module, a.name, a.version, lines, strings.Join(a.held, ", "))
}
