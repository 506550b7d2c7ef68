package informer

import (
	"fmt"
	"reflect"
	"runtime"

	"k8s.io/client-go/tools/cache"
)

// handlerName describes a handler for logs and DoneChecker names: the first function of a ResourceEventHandlerFuncs,
// else the type.
func handlerName(h cache.ResourceEventHandler) string {
	var f cache.ResourceEventHandlerFuncs
	switch h := h.(type) {
	case cache.ResourceEventHandlerFuncs:
		f = h
	case *cache.ResourceEventHandlerFuncs:
		f = *h
	default:
		return fmt.Sprintf("%T", h)
	}
	for _, fn := range []any{f.AddFunc, f.UpdateFunc, f.DeleteFunc} {
		if v := reflect.ValueOf(fn); !v.IsNil() {
			if rf := runtime.FuncForPC(v.Pointer()); rf != nil {
				return rf.Name()
			}
		}
	}
	return fmt.Sprintf("%T", h)
}
