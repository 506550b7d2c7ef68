package informer

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// compareRefs compares two states; nil if they are the same.
func compareRefs(key string, held entry.ObjectRef, isHeld bool, server entry.ObjectRef, exists bool) *Finding {
	f := &Finding{Key: key, Stored: held, Server: server}
	switch {
	case !exists && !isHeld:
		return nil
	case !exists:
		f.Kind = Ghost
	case !isHeld:
		f.Kind = Missing
	case held.UID == server.UID && held.ResourceVersion == server.ResourceVersion:
		return nil
	case held.UID != server.UID && held.UID != "":
		f.Kind = OtherObject
	default:
		f.Kind = Differs
	}
	return f
}

// foundByList is what a list has found that was not what it should be.
type foundByList struct {
	reason reflector.Reason
	// since is the resourceVersion at which a list after damage began: what is newer has changed meanwhile, and was not lost.
	since string
	findings
}

// cause is that of the incident which the list repairs.
func (f *foundByList) cause() IncidentCause {
	if f.reason == reflector.ReasonDamaged {
		return CauseDamaged
	}
	return CauseAudit
}

// noteListed takes in what the list has changed. Unless objects were lost only what an audit suspects counts, since what
// else has changed may have been under way, and, in the list of an audit, a body that differs under its resourceVersion.
func (p *pump) noteListed(changes []store.Change) {
	f := &p.found
	for _, c := range changes {
		stored, server := refOfObject(c.Old), refOfObject(c.New)
		if c.Type == cache.Deleted {
			server = entry.ObjectRef{}
		}
		found := compareRefs(c.Key, stored, c.Type != cache.Added, server, c.Type != cache.Deleted)
		switch {
		case f.reason == reflector.ReasonDamaged:
			if found == nil || newer(server.ResourceVersion, f.since) {
				continue
			}
		case found == nil && f.reason == reflector.ReasonAudit:
			found = &Finding{Key: c.Key, Kind: Differs, Stored: stored, Server: server}
		case found == nil || !p.audits.suspects(c.Key):
			continue
		}
		f.add(*found)
	}
}

func refOfObject(obj runtime.Object) entry.ObjectRef {
	if obj == nil {
		return entry.ObjectRef{}
	}
	acc, err := meta.Accessor(obj)
	if err != nil {
		return entry.ObjectRef{}
	}
	return refOf(acc)
}

// newer compares two resourceVersions; neither is newer if they can not be compared.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}

// markDue records why a list is due, so that the next process makes it if this one ends before.
func (p *pump) markDue(ctx context.Context, reason reflector.Reason) error {
	attempt := func() (store.Result, error) { return store.Result{}, p.store.SetMustRelist(ctx, string(reason)) }
	return p.commit(ctx, attempt, func([]store.Change) {})
}
