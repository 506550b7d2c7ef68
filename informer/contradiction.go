package informer

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// ifContradicted returns the reason that the store records if one of the events shows that the server was rewound, so
// that the next process lists if this one ends first: nothing else may show the rewind by then. It returns "" if no
// list would follow.
func (p *loop) ifContradicted() string {
	if p.heedsContradiction() {
		return string(reflector.ReasonRewound)
	}
	return ""
}

// heedContradiction requests a list if one of the changes shows that the server was rewound: its event cannot follow
// the stored state. Until that list is stored, objects may be missing. due says that the store has recorded the reason
// of ifContradicted. The caller holds deltasMu.
func (p *loop) heedContradiction(ctx context.Context, changes []entry.Change, due bool) {
	at := slices.IndexFunc(changes, func(c entry.Change) bool { return c.Contradicts })
	if at < 0 || p.listDue {
		return
	}
	c := changes[at]
	if due {
		p.contradicted() // if it returns false, a list has been requested already
		p.lackUntilListed()
	}
	p.due.Add(func() {
		logger := klog.FromContext(ctx).WithValues("type", p.o.ObjectDescription, "event", c.Type, "key", c.Key)
		if due {
			logger.Info("An event cannot follow what is stored: the server was rewound, and everything is listed")
		} else {
			logger.V(2).Info("An event cannot follow what is stored, again since the connection was last lost; going on")
		}
	})
}
