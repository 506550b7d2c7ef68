package informer

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/store"
)

// heedContradiction asks for a list if one of the changes shows that the server was rewound: its event cannot follow
// what was stored. Until that list is stored, objects may be missing. The caller holds deltasMu.
func (p *pump) heedContradiction(ctx context.Context, changes []store.Change) {
	at := slices.IndexFunc(changes, func(c store.Change) bool { return c.Contradicts })
	if at < 0 || p.listDue {
		return
	}
	c, listed := changes[at], p.contradicted()
	if listed {
		p.lackUntilListed()
	}
	p.due.add(func() {
		logger := klog.FromContext(ctx).WithValues("type", p.o.ObjectDescription, "event", c.Type, "key", c.Key)
		if listed {
			logger.Info("An event cannot follow what is stored: the server was rewound, and everything is listed")
		} else {
			logger.V(2).Info("An event cannot follow what is stored, again since the connection was last lost; going on")
		}
	})
}
