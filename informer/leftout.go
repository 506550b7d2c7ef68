package informer

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// leftOutIn adds to the checkpoint the objects that earlier runs could not store. If info does not name all of them, it
// requests a list of everything.
func leftOutIn(info entry.Info, c *reflector.Checkpoint) {
	if info.LeftOutMore && c.Relist == "" {
		c.Relist = reflector.ReasonLeftOut
	}
	for _, l := range info.LeftOut {
		c.LeftOut = append(c.LeftOut, l.ObjectRef)
	}
}

func leftOutUndecodable(info entry.Info) bool {
	return info.LeftOutMore || slices.ContainsFunc(info.LeftOut, func(l entry.LeftOut) bool {
		return l.Reason == entry.LeftOutCodec
	})
}

// leftOutByTransform returns the entry.LeftOut of an object whose transform failed, or that could not be decoded for
// the transform.
func leftOutByTransform(obj runtime.Object) entry.LeftOut {
	l := entry.LeftOut{Reason: entry.LeftOutTransform}
	if u, ok := obj.(*entry.Undecoded); ok && u.Err() != nil {
		l.Reason = entry.LeftOutCodec
	}
	if m, err := meta.Accessor(obj); err == nil {
		l.ObjectRef = entry.RefOf(m)
	}
	return l
}
