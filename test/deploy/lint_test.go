package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/internal/config"
)

// variants are chart values which together reach every branch of the templates.
var variants = map[string]string{
	"node":           "node: {enabled: true}",
	"node, emptyDir": "node: {enabled: true, hostPath: ''}",
	"mirror":         "mirror: {enabled: true}",
	"snapshots":      "snapshots: {enabled: true}",
	"no network rule": `
{node: {enabled: true}, mirror: {enabled: true}, snapshots: {enabled: true}, networkPolicy: {enabled: false}}`,
	"plain metrics": `
node: {enabled: true, seed: {url: "s3://bucket/production/"}}
repository: {credentialsSecret: s3}
podMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}
networkPolicy: {monitoring: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}`,
	"everything": `
image: registry.example.com/larder@sha256:0123
resources:
- {name: pods}
- {name: secrets}
- {name: deployments.apps}
- {name: ingresses.networking.k8s.io}
- {name: widgets.example.com}
keySecret: larder-key
tlsSecret: tls
offlineAccess: [{groups: ["system:serviceaccounts"], resources: ["*"], namespaces: ["*"]}]
node:
  enabled: true
  allPods: true
  serve: true
  seed: {url: "https://larder-mirror.larder.svc/snapshot/", key: RWQ, caSecret: larder-tls}
  args: [--narrow]
  config: {ready: resumed}
  pod: {nodeSelector: {edge: "true"}, tolerations: [], imagePullSecrets: [{name: pull}]}
  seLinuxOptions: {type: spc_t}
mirror:
  enabled: true
  replicas: 3
  storage: {size: 1Gi, storageClassName: fast}
  snapshotTo: s3://bucket/production/
  args: [--snapshot-every=10m]
  config: {maxSize: 4Gi}
  pod: {priorityClassName: system-cluster-critical}
snapshots:
  enabled: true
  to: oci://registry.example.com/state
  keep: [--keep-weekly=52]
  args: [--redact=configmaps]
  pod: {nodeSelector: {zone: a}}
repository: {signKeySecret: sign, recipients: ["age1xyz", "ssh-ed25519 AAAA jane"], credentialsSecret: s3}
networkPolicy:
  clients: [{podSelector: {matchLabels: {reads: larder}}}]
  monitoring: [{podSelector: {matchLabels: {app: prometheus}}}]
podMonitor: {enabled: true}`,
	"a part": `
resources:
- {name: configmaps, namespaces: [shop, web], labelSelector: app=shop}
- {name: secrets, namespaces: [shop]}
- {name: services, namespaces: [web], representation: metadata}
- {name: nodes}
keySecret: larder-key
mirror: {enabled: true, replicas: 2, snapshotTo: /var/lib/larder/snapshots/}`,
}

// TestLint checks that Helm's linter accepts the chart with each set of values, that the chart renders, and that the
// rendered sync.yaml is a valid configuration.
func TestLint(t *testing.T) {
	for name, values := range variants {
		given := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.RunAll(chartDir, given, "larder").Messages {
			if !strings.Contains(m.Error(), "icon is recommended") {
				t.Errorf("%s: %v", name, m)
			}
			if m.Severity == support.UnknownSev {
				t.Errorf("%s: %v", name, m)
			}
		}
		r := render(t, "larder", values)
		if !strings.Contains(r.notes, "larder") {
			t.Errorf("%s: the notes are %q", name, r.notes)
		}
		configurations := 0
		for _, u := range r.objects {
			data, _ := u.Object["data"].(map[string]any)
			if text, ok := data["sync.yaml"].(string); ok {
				configurations++
				t.Setenv("NODE_NAME", "node-1")
				t.Setenv("LARDER_KEY", strings.Repeat("A", 43)+"=")
				if _, err := config.Parse("sync.yaml", []byte(text)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if n := r.kinds(); configurations != n["DaemonSet"]+n["StatefulSet"] {
			t.Errorf("%s: %d configurations of %v", name, configurations, n)
		}
	}
}

// TestRefused checks that the chart refuses unknown and contradictory values, with a message that names the values.
func TestRefused(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                                        "set node.enabled, mirror.enabled or snapshots.enabled",
		"{nodes: {enabled: true}}":                  "nodes",
		"{node: {enabeld: true}}":                   "enabeld",
		"{node: {enabled: yes please}}":             "enabled",
		"{node: {pod: {hostPID: true}}}":            "hostPID",
		"{node: {config: {store: /tmp}}}":           "config",
		"{node: {enabled: true, seed: {key: RWQ}}}": "seed",
		"{node: {enabled: true, seed: {url: 's3://x/', caSecret: x}}}":                      "seed",
		"{mirror: {enabled: true, snapshotTo: /snapshots/}}":                                "snapshotTo",
		"{mirror: {enabled: true, snapshotTo: 's3://'}}":                                    "snapshotTo",
		"{snapshots: {enabled: true, to: ''}}":                                              "to",
		"{snapshots: {enabled: true, keep: []}}":                                            "keep",
		"{snapshots: {enabled: true}, resources: [{name: pods, namespaces: [a]}]}":          "pods: the CronJob saves whole",
		"{mirror: {enabled: true}, resources: [{name: Pods}]}":                              "name",
		"{mirror: {enabled: true}, resources: [{name: apps/deployments}]}":                  "name",
		"{mirror: {enabled: true}, resources: [{name: deployments}]}":                       "add its group",
		"{node: {enabled: true}, resources: [{name: all}]}":                                 "add its group",
		"{mirror: {enabled: true}, resources: []}":                                          "resources",
		"{mirror: {enabled: true}, resources: [{name: secrets}]}":                           "set keySecret",
		"{node: {enabled: true}, resources: [{name: pods}, {name: secrets}]}":               "set keySecret",
		"{node: {enabled: true, seed: {url: 'http://mirror/s.larder'}}}":                    "set node.seed.key",
		"{mirror: {enabled: true}, resources: [{name: pods, fields: metadata.name=x}]}":     "fields",
		"{mirror: {enabled: true, resources: {requests: {cpu: 1}, limit: {memory: 1Gi}}}}":  "limit",
		"{mirror: {enabled: true}, repository: {signKey: x}}":                               "signKey",
		"{mirror: {enabled: true}, podMonitor: {enabled: true, labels: {release: [a, b]}}}": "release",
		"{node: {enabled: true}, podMonitor: {enabled: true}}":                              "set networkPolicy.monitoring",
		"{snapshots: {enabled: true}, resources: [{name: secrets}]}":                        "set repository.recipients",
		"{snapshots: {enabled: true, to: /work/x/}}":                                        "snapshots.to is below /work/",
		"{snapshots: {enabled: true, to: /work/}}":                                          "snapshots.to is below /work/",
		"{mirror: {enabled: true}, prometheusRule: true}":                                   "prometheusRule",
	} {
		if _, err := tryRender("larder", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// TestValuesAreExplained checks that each value of the chart has a comment, or is in a group with a comment.
func TestValuesAreExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`^( *)([a-zA-Z]+):`)
	bare := map[string]bool{}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if m := key.FindStringSubmatch(line); m != nil && !strings.HasPrefix(strings.TrimSpace(lines[max(i-1, 0)]), "#") {
			bare[m[2]] = true
		}
	}
	// These values need no comment: their names explain them, or they are fields of Kubernetes objects.
	want := []string{"enabled", "limits", "maxSize", "requests", "schedule", "size", "storage", "tolerations"}
	if got := slices.Sorted(maps.Keys(bare)); !slices.Equal(got, want) {
		t.Errorf("without a comment are %q, want %q", got, want)
	}
}
