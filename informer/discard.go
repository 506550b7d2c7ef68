package informer

import (
	"context"

	"k8s.io/apimachinery/pkg/util/runtime"
)

// Discard gives back the collection of an informer that will not be run, so that another can be made on it. A later
// Run logs a warning and returns. An informer that has been started is left alone: it gives its collection back when Run returns.
func (i *Informer) Discard() {
	i.mu.Lock()
	started := i.started
	if !started {
		i.started, i.stopped = true, true
	}
	i.mu.Unlock()
	if started || i.release == nil {
		return
	}
	if err := i.release(); err != nil {
		runtime.HandleErrorWithContext(context.Background(), err, "Failed to give back the collection", "type", i.o.ObjectDescription)
	}
}
