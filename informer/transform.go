package informer

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// apply runs the transform, if there is one. A panic counts as an error if the program is configured to survive it.
func apply(logger klog.Logger, transform cache.TransformFunc, obj runtime.Object) (out runtime.Object, err error) {
	if transform == nil {
		return obj, nil
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
