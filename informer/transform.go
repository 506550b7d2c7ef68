package informer

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// apply runs the transform, if there is one, on the object, which it decodes. A panic counts as an error if the program
// is configured to survive it.
func apply(logger klog.Logger, transform cache.TransformFunc, obj runtime.Object) (out runtime.Object, err error) {
	if transform == nil {
		return obj, nil
	}
	if obj, err = entry.Decoded(obj); err != nil {
		return nil, fmt.Errorf("the transform function needs the object: %w", err)
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
	return out, nil
}
