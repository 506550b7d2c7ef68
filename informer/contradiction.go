package informer

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// ifContradicted returns the Batch.IfContradicted of the next batch: the reason for a list, which the store saves with
// an event that proves a rewind. If this process ends before that list, the next process makes it, although by then the
// rewind may be undetectable. ifContradicted returns "" if the event would not cause a list.
func (p *loop) ifContradicted() string {
	if p.acceptsContradiction() {
		return string(reflector.ReasonRewound)
	}
	return ""
}

// handleContradiction requests a list if a change shows that the server was rewound: its event cannot follow the stored
// state. Objects may be missing until that list is stored. due says that the store has saved the reason that
// ifContradicted returned. The caller holds deltasMu.
func (p *loop) handleContradiction(ctx context.Context, changes []entry.Change, due bool) {
	at := slices.IndexFunc(changes, func(c entry.Change) bool { return c.Contradicts })
	if at < 0 || p.listDue {
		return
	}
	c := changes[at]
	if due {
		p.contradicted() // contradicted requests the list, unless a list has been requested already
		p.markMissing()
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
