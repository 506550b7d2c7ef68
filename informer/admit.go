package informer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

// admit returns a function for reflector.Options.Admit. It refuses objects outside id's namespace, and objects that do
// not match id's label selector. id must be canonical.
func admit(id entry.Identity) func(runtime.Object) error {
	selector := labels.Everything()
	if s, err := labels.Parse(id.LabelSelector); err == nil {
		selector = s
	}
	return func(obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		if ns := o.GetNamespace(); id.Namespace != "" && ns != id.Namespace {
			where := "namespace " + ns
			if ns == "" {
				where = "objects without a namespace"
			}
			return fmt.Errorf(
				"Options.Identity says namespace %s, and the ListerWatcher lists %s; make one from the other with "+
					"requests.ListWatch", id.Namespace, where)
		}
		if !selector.Matches(labels.Set(o.GetLabels())) {
			return fmt.Errorf(
				"Options.Identity says label selector %s, and the ListerWatcher lists objects that it does not select; make one "+
					"from the other with requests.ListWatch", id.LabelSelector)
		}
		return nil
	}
}

// stores returns a function that reports whether an informer with this identity stores a listed object. Servers without
// the feature gate for shards also send objects of other shards. id must be canonical.
func stores(id entry.Identity) func(runtime.Object) bool {
	admits, shards := admit(id), id.Shards()
	return func(obj runtime.Object) bool {
		ours, err := shards.Matches(obj)
		return admits(obj) == nil && (ours || err != nil)
	}
}
