package informer

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/internal/attributes"
)

const whatTransform = "a changed transform"

// ErrTransformVersion is returned for a transform of objects in a file if Options.TransformVersion is not set.
var ErrTransformVersion = errors.New("objects of a file have a transform without a version: set " +
	"informer.Options.TransformVersion, and change it with the function; informer.Unversioned accepts that stored " +
	"objects keep the form that an older function gave them")

var errUnversioned = errors.New("Options.TransformVersion is informer.Unversioned")

// unguardedBy returns the changes that would go unnoticed because options are not set, each with the reason.
func unguardedBy(o Options) map[string]string {
	why := map[string]string{}
	if o.ClusterID == nil {
		why[attributes.Cluster] = "Options.ClusterID is not set"
	}
	if o.OpenAPIHash == nil && o.Identity.Representation != entry.Metadata { // metadata does not depend on the schema
		why[attributes.Schema] = "Options.OpenAPIHash is not set (for the informers of a factory: factory.Options.RESTClient)"
	}
	return why
}

// UnguardedMessage is the log message about a change of the server that would go unnoticed. A program with many
// informers that reports Status.Unguarded itself may filter it out.
const UnguardedMessage = "A change of the server would not be noticed"

// noteUnguarded adds a change of the server that would go unnoticed to Status.Unguarded, and logs it the first time. A
// nil err removes the change.
func (i *sharedInformer) noteUnguarded(ctx context.Context, change string, err error) {
	if i.health.setUnguarded(change, err) {
		klog.FromContext(ctx).Info(UnguardedMessage, "change", change, "why", err.Error())
	}
}

func (i *sharedInformer) logUnguarded(logger klog.Logger) {
	if i.transform != nil && i.o.TransformVersion == Unversioned {
		i.health.setUnguarded(whatTransform, errUnversioned)
	}
	if changes := i.health.unguardedNow(); i.memoryOnly == "" && len(changes) > 0 {
		logger.Info("Changes that would not be noticed", "type", i.o.ObjectDescription, "representation",
			i.o.Identity.Representation, "changes", changes)
	}
}
