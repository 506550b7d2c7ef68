package deploy

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestAlertRules checks that the PrometheusRule has the alerts of alerts.yaml unchanged, and the labels for the
// operator.
func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	rule := render(t, "larder", variants["plain metrics"]).find(t, "PrometheusRule", "larder-alerts")
	if len(want) == 0 || !reflect.DeepEqual(rule.Object["spec"], any(want)) {
		t.Errorf("the rules are\n%v, want\n%v", rule.Object["spec"], want)
	}
	if rule.GetLabels()["release"] != "prometheus" {
		t.Errorf("the labels are %v", rule.GetLabels())
	}
}

// TestWhoMayConnect checks that the NetworkPolicy always admits Prometheus to the metrics port, and which other clients
// it admits.
func TestWhoMayConnect(t *testing.T) {
	const both = `
node: {enabled: true, serve: true}
mirror: {enabled: true}
podMonitor: {enabled: true}
`
	bothPeers := "networkPolicy: {clients: [" + peer("agent") + "], monitoring: [" + peer("prometheus") + "]}"
	for name, tt := range map[string]struct {
		values, component string
		from              []string // label "app" of the peers; none admits all clients
	}{
		"mirror, everybody": {both, "mirror", nil},
		"node, everybody":   {both + "networkPolicy: {monitoring: [" + peer("prometheus") + "]}", "node", nil},
		"mirror, clients":   {both + "networkPolicy: {clients: [" + peer("agent") + "]}", "mirror", []string{"agent"}},
		"mirror, both":      {both + bothPeers, "mirror", []string{"agent", "prometheus"}},
		"node, both":        {both + bothPeers, "node", []string{"agent", "prometheus"}},
		"node does not serve": {"node: {enabled: true}\npodMonitor: {enabled: true}\n" + bothPeers, "node",
			[]string{"prometheus"}},
	} {
		r := render(t, "larder", tt.values)
		policy := as[networkingv1.NetworkPolicy](t, r.find(t, "NetworkPolicy", "larder-"+tt.component))
		monitor := r.find(t, "PodMonitor", "larder-"+tt.component)
		endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
		if err != nil || len(endpoints) != 1 || len(policy.Spec.Ingress) != 1 || len(policy.Spec.Ingress[0].Ports) != 1 {
			t.Fatalf("%s: %v, %+v", name, endpoints, policy.Spec)
		}
		ingress := policy.Spec.Ingress[0]
		if port := ingress.Ports[0].Port.StrVal; port != endpoints[0].(map[string]any)["port"] {
			t.Errorf("%s: the port %s is open, and %v is scraped", name, port, endpoints[0])
		}
		var from []string
		for _, p := range ingress.From {
			from = append(from, p.PodSelector.MatchLabels["app"])
		}
		if !slices.Equal(from, tt.from) {
			t.Errorf("%s: %q may connect, want %q", name, from, tt.from)
		}
	}
}

func peer(app string) string { return "{podSelector: {matchLabels: {app: " + app + "}}}" }
