package informer

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
)

// What identifies the contents of a server, as Status.Unguarded and the log call it.
const (
	whatCluster = "another cluster on the same address"
	whatSchema  = "a changed schema of the resource"
)

// unguardedBy says what o leaves unguarded.
func unguardedBy(o Options) (sentences []string) {
	if o.ClusterID == nil {
		sentences = append(sentences, whatCluster+": Options.ClusterID is not set")
	}
	if o.OpenAPIHash == nil {
		sentences = append(sentences, whatSchema+": Options.OpenAPIHash is not set")
	}
	return sentences
}

// noteUnknown notes that the server did not let us read what it takes to notice a change of it.
func (i *Informer) noteUnknown(ctx context.Context, what string, err error) {
	klog.FromContext(ctx).Info("A change of the server would not be noticed: what identifies it can not be read", "change", what, "err", err.Error())
	i.mu.Lock()
	defer i.mu.Unlock()
	i.unguarded = append(i.unguarded, fmt.Sprintf("%s: %v", what, err))
}

// logUnguarded warns at the start of what the options leave unguarded.
func (i *Informer) logUnguarded(logger klog.Logger) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.volatile == "" && len(i.unguarded) > 0 {
		logger.Info("Changes of the server that would not be noticed", "type", i.o.ObjectDescription, "changes", i.unguarded)
	}
}
