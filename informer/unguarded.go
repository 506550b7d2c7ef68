package informer

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/internal/attributes"
)

// whatTransform is a change of the program that may go unnoticed, as Status.Unguarded and the log call it.
const whatTransform = "a changed transform"

var errNoTransformVersion = errors.New("Options.TransformVersion is not set")

// unguardedBy says what o leaves unguarded and why, by change.
func unguardedBy(o Options) map[string]string {
	why := map[string]string{}
	if o.ClusterID == nil {
		why[attributes.Cluster] = "Options.ClusterID is not set"
	}
	if o.OpenAPIHash == nil && o.Identity.Representation != entry.Metadata { // which no schema describes
		why[attributes.Schema] = "Options.OpenAPIHash is not set (for the informers of a factory: factory.Options.RESTClient)"
	}
	return why
}

// noteUnguarded notes, and logs if that is new, that a change of the server would not be noticed; if err is nil, that
// it would be.
func (i *Informer) noteUnguarded(ctx context.Context, change string, err error) {
	if i.setUnguarded(change, err) {
		klog.FromContext(ctx).Info("A change of the server would not be noticed", "change", change, "why", err.Error())
	}
}

// setUnguarded reports whether it is new that the change would not be noticed.
func (i *Informer) setUnguarded(change string, err error) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, known := i.unguarded[change]
	if err == nil {
		delete(i.unguarded, change)
		return false
	}
	i.unguarded[change] = err.Error()
	return !known
}

// unguardedNow is Status.Unguarded as far as the options and the server's answers tell.
func (i *Informer) unguardedNow() (sentences []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, change := range slices.Sorted(maps.Keys(i.unguarded)) {
		sentences = append(sentences, change+": "+i.unguarded[change])
	}
	return sentences
}

// logUnguarded warns at the start of what the options leave unguarded.
func (i *Informer) logUnguarded(logger klog.Logger) {
	if i.transform != nil && i.o.TransformVersion == "" {
		i.setUnguarded(whatTransform, errNoTransformVersion)
	}
	if changes := i.unguardedNow(); i.memoryOnly == "" && len(changes) > 0 {
		logger.Info("Changes that would not be noticed", "type", i.o.ObjectDescription, "representation",
			i.o.Identity.Representation, "changes", changes)
	}
}
