package snapshot_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// benchPods returns pods that compress realistically: the three pods of a workload share values such as the image.
func benchPods(t testing.TB, n int, r entry.Representation) contentOf {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	id := func(bytes int) string {
		b := make([]byte, bytes)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return hex.EncodeToString(b)
	}
	of := contentOf{collection: collectionOf(core("pods"), "Pod", r)}
	var workload *strings.Replacer
	for i := range n {
		if i%3 == 0 {
			workload = strings.NewReplacer("$NS", fmt.Sprintf("team-%03d", random.IntN(200)), "$APP", "app-"+id(3), "$HASH",
				id(5), "$OWNER", id(16),
				"$IMAGE", id(32), "$CONFIG", id(32), "$PORT", fmt.Sprint(2000+random.IntN(7000)), "$ENV1", id(6), "$ENV2", id(12),
				"$RV", fmt.Sprint(random.IntN(1e7)))
		}
		pod := strings.NewReplacer("$NAME", id(3), "$UID", id(16), "$IP",
			fmt.Sprintf("10.%d.%d.%d", random.IntN(256), random.IntN(256), random.IntN(256)),
			"$NODE", fmt.Sprintf("node-%03d", random.IntN(300)), "$CONTAINER", id(32), "$TIME",
			fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", 1+random.IntN(12), 1+random.IntN(28), random.IntN(24), random.IntN(60),
				random.IntN(60)),
			"$TOKEN", id(3))
		of.records = append(of.records, recordOf(t, of.collection, workload.Replace(pod.Replace(benchPod))))
	}
	slices.SortFunc(of.records, func(a, b entry.Entry) int { return strings.Compare(a.Key, b.Key) })
	return of
}

const benchPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$APP-$HASH-$NAME","generateName":"$APP-$HASH-","namespace":"$NS","uid":"$UID","resourceVersion":"$RV","creationTimestamp":"$TIME",
"labels":{"app.kubernetes.io/name":"$APP","pod-template-hash":"$HASH"},"annotations":{"checksum/config":"$CONFIG","prometheus.io/port":"$PORT","prometheus.io/scrape":"true"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"$APP-$HASH","uid":"$OWNER","controller":true,"blockOwnerDeletion":true}],
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"$TIME","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:generateName":{},"f:labels":{".":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"$OWNER\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"$APP\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"TOKEN_URL\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:httpGet":{".":{},"f:path":{},"f:port":{}}},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":$PORT,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}}},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/config\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:serviceAccount":{},"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:name":{}},"f:name":{}}}}}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"$TIME","subresource":"status","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"$IP\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}}]},
"spec":{"volumes":[{"name":"config","configMap":{"name":"$APP-config","defaultMode":420}},{"name":"kube-api-access-$TOKEN","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],
"containers":[{"name":"$APP","image":"images.example/$APP@sha256:$IMAGE","ports":[{"containerPort":$PORT,"protocol":"TCP"}],"env":[{"name":"TOKEN_URL","value":"https://$ENV1.example"},{"name":"SETTING","value":"$ENV2"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],"resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"config","mountPath":"/etc/config"},{"name":"kube-api-access-$TOKEN","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":$PORT,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"$APP","serviceAccount":"$APP","nodeName":"$NODE","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},
"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastTransitionTime":"$TIME"},{"type":"Ready","status":"True","lastTransitionTime":"$TIME"},{"type":"ContainersReady","status":"True","lastTransitionTime":"$TIME"},{"type":"PodScheduled","status":"True","lastTransitionTime":"$TIME"}],"hostIP":"$IP","podIP":"$IP","podIPs":[{"ip":"$IP"}],"startTime":"$TIME","containerStatuses":[{"name":"$APP","state":{"running":{"startedAt":"$TIME"}},"lastState":{},"ready":true,"restartCount":0,"image":"images.example/$APP","imageID":"images.example/$APP@sha256:$IMAGE","containerID":"containerd://$CONTAINER","started":true}],"qosClass":"Burstable"}}`

const benchObjects = 10_000

func (c contentOf) size() (n int64) {
	for _, r := range c.records {
		n += int64(len(r.Payload))
	}
	return n
}

// BenchmarkWrite writes a snapshot of 10,000 pods. MB/s and ratio refer to the size of the objects' payloads.
func BenchmarkWrite(b *testing.B) {
	for _, r := range []entry.Representation{entry.Typed, entry.Unstructured} {
		b.Run(string(r), func(b *testing.B) {
			pods := benchPods(b, benchObjects, r)
			var out bytes.Buffer
			b.SetBytes(pods.size())
			for b.Loop() {
				out.Reset()
				if err := (content{collections: []contentOf{pods}}).write(&out, snapshot.WriterOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(pods.size()), "payload-bytes")
			b.ReportMetric(float64(out.Len()), "file-bytes")
			b.ReportMetric(float64(pods.size())/float64(out.Len()), "ratio")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, r := range []entry.Representation{entry.Typed, entry.Unstructured} {
		b.Run(string(r), func(b *testing.B) {
			pods := benchPods(b, benchObjects, r)
			data := content{collections: []contentOf{pods}}.bytes(b, snapshot.WriterOptions{})
			f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(pods.size())
			for b.Loop() {
				n := 0
				err := f.Records(b.Context(), pods.collection.Identity, func(entry.Entry) error { n++; return nil })
				if err != nil || n != benchObjects {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkGet reads single objects of a snapshot. Each read decodes the collection's index and one block.
func BenchmarkGet(b *testing.B) {
	pods := benchPods(b, benchObjects, entry.Typed)
	data := content{collections: []contentOf{pods}}.bytes(b, snapshot.WriterOptions{})
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{})
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		i = (i + 7919) % benchObjects
		if _, ok, err := f.Get(b.Context(), pods.collection.Identity, pods.records[i].Key); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
