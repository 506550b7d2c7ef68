package mirror

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestPlanOfASilentServer checks that a server that does not respond gets one discovery request, with a time limit,
// because the stored objects cannot be served until then.
func TestPlanOfASilentServer(t *testing.T) {
	server := clitest.StartServer(t)
	server.InjectFault(fakeapi.Fault{Break: fakeapi.BreakHang})
	infos := []entry.Info{{Identity: clitest.PodsOf("", "", ""), Resource: clitest.Pods.ResourceInfo, Complete: true}}
	for _, name := range []string{"configmaps", "services"} {
		// The requested resources, other than pods, are stored without their scope, so the plan must ask the server.
		id := clitest.PodsOf("", "", "")
		id.GroupVersionResource = schema.GroupVersionResource{Version: "v1", Resource: name}
		infos = append(infos, entry.Info{Identity: id, Complete: true})
	}
	var all []cluster.Wanted
	for _, name := range []string{"secrets", "services", "pods", "configmaps"} {
		all = append(all, cluster.Wanted{Name: name, Representation: entry.Unstructured})
	}
	pl := planner{storePath: "s.db", config: server.Config(), patience: time.Second}
	plan, _, err := pl.plan(t.Context(), mustServer(t, server.Config()), infos, nil, all)
	if err != nil || len(plan) != len(all) {
		t.Fatalf("%d are planned, %v", len(plan), err)
	}
	if got := server.Requests(); len(got) != 1 || !strings.HasPrefix(got[0], "discovery /api?") {
		t.Errorf("asked for %q", got)
	}
}

// TestPlanBesideAHangingResource checks that a resource that does not respond, such as a resource with a hanging
// conversion webhook, does not prevent the check of other resources. Otherwise the sync would wait ten seconds and
// assume that all later resources were served (kubernetes#101078, issue 38).
func TestPlanBesideAHangingResource(t *testing.T) {
	server := clitest.StartServer(t)
	server.InjectFault(fakeapi.Fault{Resource: "configmaps", Break: fakeapi.BreakHang})
	server.InjectFault(fakeapi.Fault{Resource: "secrets", Status: 404, Reason: "NotFound"})
	pl := planner{storePath: "s.db", config: server.Config()}
	plan, _, err := pl.plan(t.Context(), mustServer(t, server.Config()), nil, nil,
		[]cluster.Wanted{{Everything: true, Representation: entry.Unstructured}})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range plan {
		names[p.identity.Resource] = true
	}
	if !names["configmaps"] || names["secrets"] || !names["pods"] || !names["nodes"] {
		t.Errorf("planned: %v", names)
	}
}
