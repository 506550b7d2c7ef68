// Package sample provides an object for benchmarks and tests of several packages: a pod of about 3 KB in protobuf and 4
// KB in JSON, as made by a Deployment.
package sample

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// PodJSON is a pod as an API server sends it, in JSON.
const PodJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-7d4b9c6f5d-x2x9k","generateName":"web-7d4b9c6f5d-","namespace":"shop",
"uid":"0f6a3c52-6c5e-4b0e-9f5d-0b8b3f0f9a11","resourceVersion":"184467","creationTimestamp":"2026-01-02T03:04:05Z",
"labels":{"app":"web","pod-template-hash":"7d4b9c6f5d","tier":"frontend"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"9090"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5d","uid":"a2c1b0de-93c1-4b8e-a0cf-6f1a6a0c7b42","controller":true,"blockOwnerDeletion":true}],
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1",
"fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:tier":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"a2c1b0de-93c1-4b8e-a0cf-6f1a6a0c7b42\"}":{}}},
"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:terminationGracePeriodSeconds":{}}}},
{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:09Z","fieldsType":"FieldsV1","subresource":"status",
"fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.1.2.3\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}}]},
"spec":{"volumes":[{"name":"token","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}],"defaultMode":420}}],
"containers":[{"name":"web","image":"example.com/shop/web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[{"name":"PORT","value":"8080"},{"name":"NODE","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}}],
"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"token","readOnly":true,"mountPath":"/var/run/token"}],"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web","nodeName":"node-17","securityContext":{},"schedulerName":"default-scheduler","priority":0,"enableServiceLinks":true},
"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:09Z"},{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}],
"hostIP":"192.168.0.17","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}],"startTime":"2026-01-02T03:04:05Z","containerStatuses":[{"name":"web","state":{"running":{"startedAt":"2026-01-02T03:04:08Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"example.com/shop/web:1.2.3","imageID":"example.com/shop/web@sha256:9f2c","containerID":"containerd://0a1b","started":true}],"qosClass":"Burstable"}}`

// Pod returns the same pod twice: typed and unstructured.
func Pod(t testing.TB) (*corev1.Pod, *unstructured.Unstructured) {
	t.Helper()
	pod, u := &corev1.Pod{}, &unstructured.Unstructured{}
	if err := utiljson.Unmarshal([]byte(PodJSON), pod); err != nil {
		t.Fatal(err)
	}
	if err := utiljson.Unmarshal([]byte(PodJSON), &u.Object); err != nil {
		t.Fatal(err)
	}
	return pod, u
}
