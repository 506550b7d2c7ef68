package columns

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func row(c *Columns, u *unstructured.Unstructured) string {
	var cells []string
	for _, cell := range c.Row(u, now) {
		if cell == nil {
			cell = ""
		}
		cells = append(cells, fmt.Sprint(cell))
	}
	return strings.Join(cells, "|")
}

// TestRows checks rows of objects for which no API server is needed, or which an API server would refuse.
// test/e2e/kubectl compares the other tables with a real server's.
func TestRows(t *testing.T) {
	for _, tc := range []struct{ resource, object, want string }{
		{"pods", `{metadata: {name: p, creationTimestamp: "2026-01-02T03:04:00Z"}, spec: {containers: [{}]},
			status: {phase: Running, containerStatuses: [{ready: true, restartCount: 2, state: {running: {}}, lastState: {terminated: {finishedAt: "2026-01-02T03:03:05Z"}}}]}}`,
			"p|1/1|Running|2 (60s ago)|5s|<none>|<none>|<none>|<none>"},
		{"pods", `{metadata: {name: p}, status: {phase: Running, containerStatuses: [
			{state: {terminated: {exitCode: 0, reason: Completed}}}, {state: {terminated: {exitCode: 0, reason: Completed}}, ready: true}, {state: {terminated: {exitCode: 2}}}]}}`,
			"p|0/0|ExitCode:2|0|<unknown>|<none>|<none>|<none>|<none>"},
		{"pods",
			`{metadata: {name: p}, status: {phase: Pending, initContainerStatuses: [{state: {terminated: {signal: 9, exitCode: 1}}}]}}`,
			"p|0/0|Init:Signal:9|0|<unknown>|<none>|<none>|<none>|<none>"},
		{"pods", `{metadata: {name: p, deletionTimestamp: "2026-01-02T03:04:05Z"}, status: {phase: Succeeded}}`,
			"p|0/0|Succeeded|0|<unknown>|<none>|<none>|<none>|<none>"},
		{"nodes", `{metadata: {name: node}}`, "node|Unknown|<none>|<unknown>||<none>|<none>|<unknown>|<unknown>|<unknown>"},
		{"configmaps", `{metadata: {name: c, creationTimestamp: "2027-01-01T00:00:00Z"}, data: {a: b}, binaryData: {c: d}}`,
			"c|2|0s"},
		{"services", `{metadata: {name: s}, spec: {type: Odd}}`, "s|Odd|<none>|<unknown>|<none>|<unknown>|<none>"},
		{"jobs.batch",
			`{metadata: {name: j, deletionTimestamp: x}, spec: {completions: 2}, status: {startTime: "2026-01-02T03:04:00Z"}}`,
			"j|Terminating|0/2|5s|<unknown>|||<none>"},
		{"jobs.batch",
			`{metadata: {name: j}, spec: {parallelism: 3}, status: {conditions: [{type: SuccessCriteriaMet, status: "True"}]}}`,
			"j|SuccessCriteriaMet|0/1 of 3||<unknown>|||<none>"},
		{"deployments.apps", `{metadata: {name: d}, spec: {selector: {matchExpressions: [{key: a, operator: Odd}]}}}`,
			"d|0/0|0|0|<unknown>|||<invalid>"},
		{"deployments.apps", `{metadata: {name: d}, spec: {selector: 7}}`, "d|0/0|0|0|<unknown>|||"},
		{"horizontalpodautoscalers.autoscaling",
			`{metadata: {name: h}, spec: {maxReplicas: 3, targetCPUUtilizationPercentage: 80}, status: {currentCPUUtilizationPercentage: 20}}`,
			"h|/|cpu: 20%/80%|<unset>|3|0|<unknown>"},
		{"horizontalpodautoscalers.autoscaling", `{metadata: {name: h}, spec: {metrics: [{type: Odd}, {}]}}`,
			"h|/|<unknown type>, <unknown type>|<unset>|0|0|<unknown>"},
		{"certificatesigningrequests.certificates.k8s.io",
			`{metadata: {name: c}, status: {certificate: abc, conditions: [{type: Approved}, {type: Failed}]}}`,
			"c|<unknown>|<none>||<none>|Approved,Failed,Issued"},
		{"persistentvolumes", `{metadata: {name: v}, spec: {capacity: {storage: nonsense}}}`,
			"v|0|||||" + "|<unset>||<unknown>|<unset>"},
		{"flowschemas.flowcontrol.apiserver.k8s.io", `{metadata: {name: f}, spec: {priorityLevelConfiguration: {name: p},
			matchingPrecedence: 7}, status: {conditions: [{type: Dangling, status: "False"}]}}`, "f|p|7|<none>|<unknown>|False"},
		{"flowschemas.flowcontrol.apiserver.k8s.io", `{metadata: {name: f}, spec: {distinguisherMethod: {type: ByUser}}}`,
			"f||0|ByUser|<unknown>|?"},
		{"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", `{metadata: {name: p}, spec: {type: Limited, limited:
			{nominalConcurrencyShares: 3, limitResponse: {queuing: {queues: 4, handSize: 2, queueLengthLimit: 5}}}}}`,
			"p|Limited|3|4|2|5|<unknown>"},
		{"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", `{metadata: {name: p}, spec: {type: Exempt}}`,
			"p|Exempt|<none>|<none>|<none>|<none>|<unknown>"},
		{"ipaddresses.networking.k8s.io", `{metadata: {name: a}, spec: {parentRef: {resource: Services, namespace: shop,
			name: s}}}`, "a|services/shop/s|<unknown>"},
		{"servicecidrs.networking.k8s.io", `{metadata: {name: c}, spec: {cidrs: [a, b]}}`, "c|a,b|<unknown>"},
		{"resourceclaims.resource.k8s.io", `{metadata: {name: c, deletionTimestamp: x}, status: {allocation: {},
			reservedFor: [{}]}}`, "c|deleted,allocated,reserved|<unknown>"},
		{"resourcepoolstatusrequests.resource.k8s.io", `{metadata: {name: r}, spec: {driver: d}, status: {poolCount: 3,
			pools: [{totalDevices: 8, validationError: x}, {totalDevices: 2, allocatedDevices: 1}], conditions: [{type: Complete,
			status: "True", lastTransitionTime: "2026-01-02T03:04:00Z"}]}}`, "r|d|10|0|1|0|1|3|Complete (2/3 pools)|5s"},
		{"resourcepoolstatusrequests.resource.k8s.io", `{metadata: {name: r}, spec: {driver: d}}`,
			"r|d|-|-|-|-|-|0|Pending|<none>"},
		{"podgroups.scheduling.k8s.io", `{metadata: {name: p}, spec: {schedulingPolicy: {gang: {}}}, status: {conditions:
			[{type: PodGroupScheduled, status: "False"}]}}`, "p|Gang|<none>|Unschedulable|<unknown>"},
		{"componentstatuses", `{metadata: {name: c}, conditions: [{type: Healthy, status: "False", message: m, error: e}]}`,
			"c|Unhealthy|m|e"},
		{"things.example.com", `{metadata: {name: x}}`, "x|<unknown>"},
	} {
		c := For(schema.ParseGroupResource(tc.resource), nil, false)
		if d := cmp.Diff(tc.want, row(c, parse(t, tc.object))); d != "" {
			t.Errorf("%s %s: %s", tc.resource, tc.object, d)
		}
	}
}

func TestCustomColumns(t *testing.T) {
	u := parse(t,
		`{metadata: {name: x}, spec: {i: 3, f: 2.5, whole: 1000000.0, b: true, s: text, n: null, d: "2026-01-01T03:04:05Z", l: [{a: 1}, {a: 2}], m: {k: v}}}`)
	for _, tc := range []struct{ kind, path, want string }{
		{"integer", ".spec.i", "3"}, {"integer", ".spec.f", "2"}, {"integer", ".spec.s", ""}, {"integer", ".spec.none", ""},
		{"number", ".spec.i", "3"}, {"number", ".spec.f", "2.5"}, {"number", ".spec.whole", "1000000"},
		{"number", ".spec.b", ""},
		{"boolean", ".spec.b", "true"}, {"boolean", ".spec.s", ""},
		{"string", ".spec.s", "text"}, {"string", ".spec.i", "3"}, {"string", ".spec.none", ""},
		{"string", ".spec.l[*].a", "1"},
		{"string", ".spec.l", `[{"a":1},{"a":2}]`}, {"string", ".spec.m", `{"k":"v"}`}, {"string", ".spec.l[5].a", ""},
		{"date", ".spec.d", "24h"}, {"date", ".spec.s", "<invalid>"}, {"date", ".spec.i", ""}, {"date", ".spec.n", ""},
		{"string", ".spec[", ""}, {"odd", ".spec.s", ""},
	} {
		c := For(schema.GroupResource{Group: "example.com", Resource: "things"},
			[]entry.Column{{Name: "C", Type: tc.kind, JSONPath: tc.path}}, false)
		if d := cmp.Diff("x|"+tc.want, row(c, u)); d != "" {
			t.Errorf("%s %s: %s", tc.kind, tc.path, d)
		}
	}
}

func TestFor(t *testing.T) {
	thing := schema.GroupResource{Group: "example.com", Resource: "things"}
	custom := []entry.Column{{Name: "Size", Type: "integer", JSONPath: ".spec.size"},
		{Name: "More", Type: "string", JSONPath: ".x", Priority: 1}}
	for _, tc := range []struct {
		name string
		c    *Columns
		want string
	}{
		{"unknown", For(thing, nil, false), "Name Age"},
		{"of types", For(schema.GroupResource{Group: "apps", Resource: "replicasets"}, nil, false),
			"Name Desired:integer Current:integer Ready:integer Age +Containers +Images +Selector"},
		{"custom", For(thing, custom, false), "Name Size +More"},
		{"custom without columns", For(thing, []entry.Column{}, false), "Name"},
		{"metadata", For(thing, custom, true), "Name Age"},
		{"metadata of pods", For(schema.GroupResource{Resource: "pods"}, nil, true), "Name Age"},
		{"one's own pods", For(schema.GroupResource{Group: "example.com", Resource: "pods"}, nil, false), "Name Age"},
		{"secrets", For(schema.GroupResource{Resource: "secrets"}, nil, false), "Name Type Data Age"},
	} {
		var names []string
		for _, d := range tc.c.Definitions() {
			name := d.Name
			if d.Priority > 0 {
				name = "+" + name
			}
			names = append(names, name)
			if d.Type == "integer" && tc.name == "of types" {
				names[len(names)-1] += ":integer"
			}
			if (d.Format == "name") != (d.Name == "Name") {
				t.Errorf("%s: column %s has the format %q", tc.name, d.Name, d.Format)
			}
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%s: got %q", tc.name, got)
		}
		if tc.c.Known() != (tc.name != "unknown" && tc.name != "one's own pods") {
			t.Errorf("%s: known is %t", tc.name, tc.c.Known())
		}
	}
}

func TestAnyContent(t *testing.T) {
	names := []string{
		"metadata", "spec", "status", "conditions", "containers", "containerStatuses", "initContainerStatuses", "state",
		"terminated", "waiting", "type",
		"ports", "addresses", "ingress", "rules", "loadBalancer", "labels", "annotations", "metrics", "resource", "target",
		"template", "selector",
		"capacity", "storage", "hard", "used", "subjects", "subsets", "endpoints", "name", "reason", "creationTimestamp",
		"ownerReferences", "paramRef",
	}
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaves := []*rapid.Generator[any]{
			rapid.Just[any](nil), rapid.Just[any]("True"), rapid.Just[any](""), rapid.String().AsAny(), rapid.Int64().AsAny(),
			rapid.Float64Range(-1e20, 1e20).AsAny(), rapid.Bool().AsAny(),
		}
		if depth == 0 {
			return rapid.OneOf(leaves...)
		}
		return rapid.OneOf(append(leaves,
			rapid.Custom(func(t *rapid.T) any { return any(rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")) }),
			rapid.Custom(func(t *rapid.T) any {
				return any(rapid.MapOfN(rapid.SampledFrom(names), value(depth-1), 0, 6).Draw(t, "map"))
			}),
			rapid.Custom(func(t *rapid.T) any {
				return any(rapid.MapOfN(rapid.SampledFrom(names), value(depth-1), 4, 12).Draw(t, "map"))
			}),
		)...)
	}
	resources := make([]schema.GroupResource, 0, len(kinds))
	for r := range kinds {
		resources = append(resources, r)
	}
	rapid.Check(t, func(t *rapid.T) {
		u := &unstructured.Unstructured{Object: rapid.MapOfN(rapid.SampledFrom(names[:3]), value(5), 0, 3).Draw(t, "object")}
		before, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resources {
			c := For(r, nil, false)
			extra := 0
			if r.Resource == "ipaddresses" {
				// Rows of IPAddresses have one extra cell, as in kube-apiserver.
				extra = 1
			}
			if n := len(c.Row(u, now)); n != len(c.Definitions())+extra {
				t.Fatalf("%s: %d cells, %d columns", r, n, len(c.Definitions()))
			}
		}
		if after, _ := json.Marshal(u.Object); string(after) != string(before) {
			t.Fatal("the object was changed")
		}
	})
}
