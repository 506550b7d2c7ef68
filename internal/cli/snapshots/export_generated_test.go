package snapshots

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/snapshot"
)

// TestLeaveOutGenerated checks which fields an export leaves out because a new object cannot have them (velero#6711),
// and which fields it keeps because a client has set them.
func TestLeaveOutGenerated(t *testing.T) {
	for _, tc := range []struct{ name, object, want string }{
		{"job", `{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u, labels: {app: x, controller-uid: u,
			batch.kubernetes.io/controller-uid: u, job-name: j, batch.kubernetes.io/job-name: j}},
			spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u,
			batch.kubernetes.io/controller-uid: u, job-name: j, batch.kubernetes.io/job-name: j}}, spec: {}}}}`,
			`{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u, labels: {app: x}},
			spec: {template: {metadata: {}, spec: {}}}}`},
		{"job with labels of its own", `{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u, labels: {job-name: j}},
			spec: {template: {metadata: {labels: {app: x, controller-uid: u}}}}}`,
			`{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u, labels: {job-name: j}},
			spec: {template: {metadata: {labels: {app: x}}}}}`},
		{"job with a manual selector", `{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u},
			spec: {manualSelector: true, selector: {matchLabels: {controller-uid: u}},
			template: {metadata: {labels: {controller-uid: u}}}}}`, ""},
		{"service", `{apiVersion: v1, kind: Service, metadata: {managedFields: [{fieldsV1: {"f:spec": {"f:type": {},
			"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}}}}}}]}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1,
			clusterIPs: [10.0.0.1], healthCheckNodePort: 30001, ports: [{port: 80, protocol: TCP, nodePort: 30000}]}}`,
			`{apiVersion: v1, kind: Service, metadata: {managedFields: [{fieldsV1: {"f:spec": {"f:type": {}, "f:ports":
			{'k:{"port":80,"protocol":"TCP"}': {"f:port": {}}}}}}]}, spec: {type: LoadBalancer,
			ports: [{port: 80, protocol: TCP}]}}`},
		{"service with a port and an address that a client chose", `{apiVersion: v1, kind: Service,
			metadata: {managedFields: [{fieldsV1: {"f:spec": {"f:clusterIP": {}, "f:healthCheckNodePort": {}, "f:ports":
			{'k:{"port":80,"protocol":"UDP"}': {"f:nodePort": {}}}}}}, {subresource: status, fieldsV1: {"f:spec":
			{"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:nodePort": {}}}}}}]}, spec: {clusterIP: 10.0.0.1,
			clusterIPs: [10.0.0.1], healthCheckNodePort: 30001,
			ports: [{port: 80, nodePort: 1}, {port: 80, protocol: UDP, nodePort: 2}]}}`,
			`{apiVersion: v1, kind: Service,
			metadata: {managedFields: [{fieldsV1: {"f:spec": {"f:clusterIP": {}, "f:healthCheckNodePort": {}, "f:ports":
			{'k:{"port":80,"protocol":"UDP"}': {"f:nodePort": {}}}}}}, {subresource: status, fieldsV1: {"f:spec":
			{"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:nodePort": {}}}}}}]}, spec: {clusterIP: 10.0.0.1,
			healthCheckNodePort: 30001, ports: [{port: 80}, {port: 80, protocol: UDP, nodePort: 2}]}}`},
		{"headless service", `{apiVersion: v1, kind: Service, spec: {clusterIP: None, clusterIPs: [None]}}`, ""},
		{"service of another group", `{apiVersion: serving.knative.dev/v1, kind: Service, spec: {clusterIP: x}}`, ""},
		{"pod", `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n, priority: 0,
			preemptionPolicy: Never, overhead: {cpu: 1}, serviceAccountName: a, ephemeralContainers: [{name: e}],
			volumes: [{name: kube-api-access-x, projected: {}}, {name: a-token-x, secret: {}}, {name: kube-api-access-y,
			emptyDir: {}}], initContainers: [{name: i, volumeMounts: [{name: kube-api-access-x}]}], containers: [{name: c,
			volumeMounts: [{name: a-token-x}, {name: kube-api-access-y}]}]}}`,
			`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {serviceAccountName: a,
			volumes: [{name: kube-api-access-y, emptyDir: {}}], initContainers: [{name: i}], containers: [{name: c,
			volumeMounts: [{name: kube-api-access-y}]}]}}`},
		{"the kubelet's own pod", `{apiVersion: v1, kind: Pod, metadata: {annotations: {kubernetes.io/config.mirror: x}},
			spec: {nodeName: n}}`, ""},
		{"pod of a node that a client chose", `{apiVersion: v1, kind: Pod,
			metadata: {managedFields: [{fieldsV1: {"f:spec": {"f:nodeName": {}}}}]}, spec: {nodeName: n}}`, ""},
		{"claim", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations:
			{pv.kubernetes.io/bind-completed: yes, pv.kubernetes.io/bound-by-controller: yes, a: b}}, spec: {volumeName: v}}`,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {a: b}}, spec: {}}`},
		{"claim of a named volume", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations:
			{pv.kubernetes.io/bind-completed: yes, a: b}}, spec: {volumeName: v}}`,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {a: b}}, spec: {volumeName: v}}`},
		{"volume", `{apiVersion: v1, kind: PersistentVolume, spec: {claimRef: {name: c, uid: u, resourceVersion: "1"}}}`,
			`{apiVersion: v1, kind: PersistentVolume, spec: {claimRef: {name: c}}}`},
		{"token", `{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {annotations:
			{kubernetes.io/service-account.name: a, kubernetes.io/service-account.uid: u}}, data: {token: x, ca.crt: x}}`,
			`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {annotations:
			{kubernetes.io/service-account.name: a}}}`},
		{"old event", `{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e}, eventTime: null, note: m,
			regarding: {name: p}, deprecatedCount: 3, type: Normal}`,
			`{apiVersion: v1, kind: Event, metadata: {name: e}, eventTime: null, message: m, involvedObject: {name: p}, count: 3,
			type: Normal}`},
		{"new event", `{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e}, eventTime: x, note: m}`, ""},
		{"deletion", `{apiVersion: v1, kind: ConfigMap, metadata: {finalizers: [foregroundDeletion, a/b, orphan]}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {finalizers: [a/b]}}`},
		{"odd types", `{apiVersion: v1, kind: Pod, metadata: 1, spec: {volumes: [1], containers: x}}`, ""},
		{"no metadata", `{apiVersion: batch/v1, kind: Job, spec: 7}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parse := func(text string) (object map[string]any) {
				if err := yaml.Unmarshal([]byte(text), &object); err != nil {
					t.Fatal(err)
				}
				return object
			}
			if tc.want == "" {
				tc.want = tc.object
			}
			want := parse(tc.want)
			if meta, ok := want["metadata"].(map[string]any); ok {
				// Exports never have these metadata fields, so they are removed from the expected object.
				delete(meta, "uid")
				delete(meta, "managedFields")
			}
			got := (&exporting{}).exportForm(&unstructured.Unstructured{Object: parse(tc.object)}, snapshot.Collection{})
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(- want, + got)\n%s", d)
			}
		})
	}
}
