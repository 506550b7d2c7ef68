package informer

import (
	"context"
	"errors"

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
	if i.health.setUnguarded(change, err) {
		klog.FromContext(ctx).Info("A change of the server would not be noticed", "change", change, "why", err.Error())
	}
}

// logUnguarded warns at the start of what the options leave unguarded.
func (i *Informer) logUnguarded(logger klog.Logger) {
	if i.transform != nil && i.o.TransformVersion == "" {
		i.health.setUnguarded(whatTransform, errNoTransformVersion)
	}
	if changes := i.health.unguardedNow(); i.memoryOnly == "" && len(changes) > 0 {
		logger.Info("Changes that would not be noticed", "type", i.o.ObjectDescription, "representation",
			i.o.Identity.Representation, "changes", changes)
	}
}
