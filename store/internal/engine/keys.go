package engine

import (
	"reflect"

	"k8s.io/client-go/tools/cache"
)

// CustomKeys reports whether fn may return keys of another form than client-go's namespace/name.
func CustomKeys(fn cache.KeyFunc) bool {
	if fn == nil {
		return false
	}
	at := reflect.ValueOf(fn).Pointer()
	return at != reflect.ValueOf(cache.MetaNamespaceKeyFunc).Pointer() &&
		at != reflect.ValueOf(cache.DeletionHandlingMetaNamespaceKeyFunc).Pointer()
}
