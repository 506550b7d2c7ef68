package delivery

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// handlerName describes a handler for logs and DoneChecker names, in client-go's words. Its function for that is
// private, but a registration is named after the informer and the handler, so an informer that never runs is asked.
func handlerName(h cache.ResourceEventHandler) string {
	never := cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})
	reg, err := never.AddEventHandler(h)
	if err != nil {
		return "unknown"
	}
	return strings.TrimPrefix(reg.HasSyncedChecker().Name(), never.HasSyncedChecker().Name()+" + event handler ")
}
