package delivery

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// handlerName formats a handler's name for logs and DoneCheckers as client-go does. client-go's function is private, so
// handlerName registers h with an informer that never runs and reads the registration's name.
func handlerName(h cache.ResourceEventHandler) string {
	never := cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})
	reg, err := never.AddEventHandler(h)
	if err != nil {
		return "unknown"
	}
	return strings.TrimPrefix(reg.HasSyncedChecker().Name(), never.HasSyncedChecker().Name()+" + event handler ")
}
