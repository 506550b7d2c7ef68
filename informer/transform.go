package informer

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// apply decodes the object and runs the transform on it; without a transform it returns obj. It restores the object's
// namespace, name, UID and resourceVersion. With utilruntime.ReallyCrash off, a panic counts as an error.
func apply(logger klog.Logger, transform cache.TransformFunc, obj runtime.Object) (out runtime.Object, err error) {
	if transform == nil {
		return obj, nil
	}
	if obj, err = entry.Decoded(obj); err != nil {
		return nil, fmt.Errorf("the transform function needs the object: %w", err)
	}
	m, noMeta := meta.Accessor(obj)
	var sent identity
	if noMeta == nil {
		sent = identityOf(m)
	}
	err = errors.New("the transform function panicked")
	defer utilruntime.HandleCrashWithLogger(logger)
	got, err := transform(obj)
	if err != nil {
		return nil, fmt.Errorf("the transform function failed: %w", err)
	}
	out, ok := got.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("the transform function returned a %T, which is no runtime.Object and cannot be stored", got)
	}
	if m, err := meta.Accessor(out); err == nil && noMeta == nil && identityOf(m) != sent {
		sent.putBack(m)
	}
	return out, nil
}

// identity is the metadata by which restarts and audits compare an object with the server's; transforms keep it.
type identity struct {
	namespace, name, resourceVersion string
	uid                              types.UID
}

func identityOf(m metav1.Object) identity {
	return identity{m.GetNamespace(), m.GetName(), m.GetResourceVersion(), m.GetUID()}
}

func (i identity) putBack(m metav1.Object) {
	m.SetNamespace(i.namespace)
	m.SetName(i.name)
	m.SetResourceVersion(i.resourceVersion)
	m.SetUID(i.uid)
}
