package mirror

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// runs reports whether a collection is mirrored as the options want it: what has to be begun anew is not.
func (m *mirror) runs(id entry.Identity, o memberOptions) bool {
	for _, mb := range m.now() {
		if mb.identity == id {
			secret := input.Secrets.GroupResource() == id.GroupResource()
			return !secret || mb.informer.Status().Persistent == (o.persistSecrets || m.store.Seals(id.GroupResource()))
		}
	}
	return false
}

// change is what replace did.
type change struct {
	begun, stopped []*member
	kept           int
}

// replace makes what is mirrored that of the plan. Those that are mirrored already go on as they are: they neither list
// nor watch anew. If it fails nothing has changed.
func (m *mirror) replace(ctx context.Context, plan []planned, o memberOptions) (change, error) {
	var c change
	var next []*member
	for _, p := range plan {
		mb, err := m.keptOrNew(ctx, p, o)
		if err != nil {
			for _, made := range c.begun {
				_ = made.informer.Close() // it has written nothing
			}
			return change{}, err
		}
		next = append(next, mb)
		if p.conn == nil {
			c.kept++
		} else {
			c.begun = append(c.begun, mb)
		}
	}
	m.mu.Lock()
	for _, mb := range m.members {
		if !slices.Contains(next, mb) {
			c.stopped = append(c.stopped, mb)
		}
	}
	m.members = next
	for _, mb := range c.begun {
		switch {
		case m.over:
			_ = mb.informer.Close() // it has written nothing
		case m.running != nil: // else run will start it
			m.startLocked(mb)
		}
	}
	m.mu.Unlock()
	for _, mb := range c.stopped {
		if err := mb.end(); err != nil {
			klog.FromContext(ctx).Error(err, "What is no longer mirrored did not end well", "collection", mb.identity.String())
		}
	}
	return c, nil
}

// end ends a member that is not in the mirror any more, and waits.
func (mb *member) end() error {
	if mb.cancel == nil {
		return mb.informer.Close()
	}
	mb.endWatches(source.ErrReplaced)
	mb.cancel()
	<-mb.ended
	return nil
}

// keptOrNew returns the member that is there for p, or a new one.
func (m *mirror) keptOrNew(ctx context.Context, p planned, o memberOptions) (*member, error) {
	if p.conn == nil {
		for _, mb := range m.now() {
			if mb.identity == p.identity {
				return mb, nil
			}
		}
	}
	return newMember(ctx, m.store, p, o)
}
