package informer

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// leftOutIn adds the objects that earlier runs could not store to the checkpoint. If they are not all recorded, it
// requests a list that delivers everything again.
func leftOutIn(info entry.Info, c *reflector.Checkpoint) {
	if info.LeftOutMore && c.Relist == "" {
		c.Relist = reflector.ReasonLeftOut
	}
	for _, l := range info.LeftOut {
		c.LeftOut = append(c.LeftOut, l.ObjectRef)
	}
}

// leftOutByTransform returns the record of an object whose transform failed.
func leftOutByTransform(obj runtime.Object) entry.LeftOut {
	l := entry.LeftOut{Reason: entry.LeftOutTransform}
	if m, err := meta.Accessor(obj); err == nil {
		l.ObjectRef = entry.RefOf(m)
	}
	return l
}
