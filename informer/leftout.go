package informer

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// leftOutIn adds what earlier runs could not take in to the checkpoint. If it is not known what that was, or if a
// list is due that compares identities, everything is listed and tried again.
func leftOutIn(info store.Info, c *reflector.Checkpoint) {
	if info.LeftOutMore && c.Relist == "" {
		c.Relist = reflector.ReasonLeftOut
	}
	for _, l := range info.LeftOut {
		c.LeftOut = append(c.LeftOut, l.ObjectRef)
	}
}

// leftOutByTransform is what to record of an object whose transform failed.
func leftOutByTransform(obj runtime.Object) entry.LeftOut {
	l := entry.LeftOut{Reason: entry.LeftOutTransform}
	if m, err := meta.Accessor(obj); err == nil {
		l.ObjectRef = entry.RefOf(m)
	}
	return l
}
