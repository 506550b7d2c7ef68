package adoptions

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	foos        = schema.GroupVersionResource{Group: "samplecontroller.k8s.io", Version: "v1alpha1", Resource: "foos"}
)

// newFoos returns the work of sample-controller, which keeps a Deployment with the right number of replicas for each
// Foo.
func newFoos(w *world) scenario {
	w.define("artifacts/examples/crd-status-subresource.yaml", foos)
	o := owners{world: w, gvr: foos, owned: deployments}
	o.create = func(name string, replicas int64) {
		w.create(foos, `
apiVersion: samplecontroller.k8s.io/v1alpha1
kind: Foo
metadata: {name: %s}
spec: {deploymentName: %s, replicas: %d}`, name, name, replicas)
	}
	return scenario{change: o.change, checkWork: o.checkWork}
}

// owners are objects for each of which a program keeps a dependent object with the same name and replicas. The API
// server has no garbage collector, so the test deletes the dependents of deleted owners. A program that creates such a
// dependent again has wrongly kept the owner.
type owners struct {
	*world
	gvr, owned schema.GroupVersionResource
	create     func(name string, replicas int64)

	// want has the replicas of each owner, or -1 for a deleted owner.
	want map[string]int64
}

// change creates four owners. Of the owners of the previous call, it scales one, deletes one with its dependent object,
// and deletes only the dependent object of another.
func (o *owners) change(round int) {
	if o.want == nil {
		o.want = map[string]int64{}
	}
	name := func(round int, what string) string { return fmt.Sprintf("%s-%d", what, round) }
	for _, what := range []string{"stays", "scaled", "goes", "bare"} {
		o.want[name(round, what)] = 1
		o.create(name(round, what), 1)
	}
	if round == 0 {
		return
	}
	scaled, goes, bare := name(round-1, "scaled"), name(round-1, "goes"), name(round-1, "bare")
	o.want[scaled], o.want[goes] = 3, -1
	o.patch(o.gvr, scaled, `{"spec":{"replicas":3}}`)
	o.delete(o.gvr, goes)
	o.delete(o.owned, goes)
	o.delete(o.owned, bare)
}

func (o *owners) checkWork() error {
	var errs []error
	for name, replicas := range o.want {
		errs = append(errs, o.replicas(o.owned, name, replicas))
	}
	return errors.Join(errs...)
}
