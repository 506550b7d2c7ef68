package informer

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// ifContradicted is what is stored with an event that shows that the server was rewound, so that the next process lists
// if this one ends before it has: by then nothing else may show it. It is empty if there is to be no list for that.
func (p *loop) ifContradicted() string {
	if p.heedsContradiction() {
		return string(reflector.ReasonRewound)
	}
	return ""
}

// heedContradiction asks for a list if one of the changes shows that the server was rewound: its event cannot follow
// what was stored. Until that list is stored, objects may be missing. due: the store says that one is. The caller holds
// deltasMu.
func (p *loop) heedContradiction(ctx context.Context, changes []store.Change, due bool) {
	at := slices.IndexFunc(changes, func(c store.Change) bool { return c.Contradicts })
	if at < 0 || p.listDue {
		return
	}
	c := changes[at]
	if due {
		p.contradicted() // if that says no by now, a list is on its way already
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
