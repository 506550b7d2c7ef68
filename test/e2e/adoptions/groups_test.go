package adoptions

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	statefulSets = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	services     = corev1.SchemeGroupVersion.WithResource("services")
	groups       = schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1",
		Resource: "leaderworkersets"}
	disaggregated = schema.GroupVersionResource{Group: "disaggregatedset.x-k8s.io", Version: "v1",
		Resource: "disaggregatedsets"}
)

// newGroups returns the work of LWS, which keeps a StatefulSet and a Service for each LeaderWorkerSet, with the same
// number of replicas. The webhooks of LWS are disabled, because they need certificates.
func newGroups(w *world) scenario {
	w.define("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml", groups)
	w.define("config/crd/bases/disaggregatedset.x-k8s.io_disaggregatedsets.yaml", disaggregated)
	o := owners{world: w, gvr: groups, owned: statefulSets}
	o.create = func(name string, replicas int64) {
		w.create(groups, `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: %s}
spec:
  replicas: %d
  networkConfig: {subdomainPolicy: Shared}
  rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 0, partition: 0}}
  leaderWorkerTemplate:
    size: 2
    workerTemplate: {spec: {containers: [{name: c, image: pause}]}}`, name, replicas)
	}
	checkWork := func() error {
		if err := o.checkWork(); err != nil {
			return err
		}
		for name, replicas := range o.want {
			if service, err := w.get(services, name); err != nil || service == nil && replicas >= 0 {
				return fmt.Errorf("LeaderWorkerSet %s has no Service: %w", name, err)
			}
		}
		return nil
	}
	config := w.file("config.yaml", `
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
internalCertManagement: {enable: false}`)
	return scenario{
		args: []string{"--config", config, "--leader-elect=false", "--metrics-bind-address=0",
			"--health-probe-bind-address=0"},
		env:    []string{"ENABLE_WEBHOOKS=false"},
		change: o.change, checkWork: checkWork,
	}
}
