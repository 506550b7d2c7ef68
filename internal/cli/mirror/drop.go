package mirror

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
)

const (
	// lackedFor is how long the API server must not serve a resource before a sync of all resources drops the stored
	// collections of that resource. Meanwhile the sync requests discovery every lackedEvery.
	lackedFor, lackedEvery = 24 * time.Hour, time.Hour
	// lackedDocument names the document in the store with the time for which the server has not served a resource: JSON of
	// durations by resource.group. Only time during which a sync ran and the server described the API group counts, so a
	// timestamp would not suffice.
	lackedDocument = "lacked"
)

// dropper is the state of dropping stored collections that a sync no longer mirrors.
type dropper struct {
	// keep disables dropping: all stored collections are kept.
	keep bool
	// asked is when the server last described its resources. It is zero if the last request failed or the next request is
	// due soon.
	asked time.Time
	// waiting says that the server does not serve a stored resource, or that an open collection could not be dropped.
	waiting bool
}

func (f *follower) dropIsDue() bool {
	return f.drop.waiting && f.now().Sub(f.drop.asked) >= lackedEvery
}

// dropUnnamed drops the stored collections that the current arguments or configuration do not name. A sync of all
// resources also drops collections of resources that the server has not served for lackedFor. f.offers is the discovery
// that the server returned at the time asked. A later call drops collections that are still open.
func (m *mirror) dropUnnamed(ctx context.Context, f *follower, asked time.Time) {
	if f.drop.keep || f.offers == nil {
		return
	}
	infos, err := m.store.Collections(ctx)
	if err != nil {
		return // the informers report errors of the store
	}
	r := cluster.NewResolver(f.storePath, infos, f.offers.Discovery,
		func(context.Context) (cluster.Offers, error) { return *f.offers, nil })
	everything := slices.ContainsFunc(f.wanted, func(w cluster.Wanted) bool { return w.Everything })
	var lacked map[string]time.Duration
	if everything {
		lacked = m.countLacked(ctx, f, asked, infos)
	}
	f.drop.waiting = len(lacked) > 0
	for _, info := range infos {
		var named, covered bool
		for _, w := range f.wanted {
			of := r.Covers(ctx, w, info)
			named, covered = named || of && !w.Everything, covered || of
		}
		why := ""
		switch {
		case len(info.Resource.RequestedAs) > 0 && !covered:
			why = "it was named before, and is not now"
		case everything && !named && lacked[info.Identity.GroupResource().String()] >= lackedFor:
			why = "the API server has not had the resource for a day"
		default:
			continue
		}
		m.drop(ctx, f, info, why)
	}
}

// drop drops a stored collection. If an informer mirrors the collection, drop only ends the informer; a later call
// drops the collection, once the informer has closed it.
func (m *mirror) drop(ctx context.Context, f *follower, info entry.Info, why string) {
	for _, mb := range m.all() {
		if mb.identity == info.Identity {
			m.end(mb)
			// Discovery and the drop are due again soon, because the collection is still open.
			f.drop.waiting, f.drop.asked = true, time.Time{}
			return
		}
	}
	switch err := m.store.Drop(ctx, info.Identity); {
	case err == nil:
		klog.FromContext(ctx).Info("Dropped from the store", "collection", info.Identity.String(), "objects", info.Objects,
			"why", why)
	case ctx.Err() == nil:
		f.drop.waiting = true
		klog.FromContext(ctx).V(2).Info("A collection is not dropped from the store yet", "err", err)
	}
}

// countLacked updates the stored durations for which the server has not served the resources of collections, and
// returns the durations by resource.group. The time between two discovery responses counts if the resource is missing
// from both.
func (m *mirror) countLacked(
	ctx context.Context, f *follower, asked time.Time, infos []entry.Info,
) map[string]time.Duration {
	var before map[string]time.Duration
	data, err := m.store.Document(ctx, lackedDocument)
	if err == nil {
		// If the stored durations are unreadable, they restart at zero.
		_ = json.Unmarshal(data, &before)
	}
	passed := time.Duration(0)
	if !f.drop.asked.IsZero() {
		passed = asked.Sub(f.drop.asked)
	}
	f.drop.asked = asked
	lacked := map[string]time.Duration{}
	for _, info := range infos {
		of := info.Identity.GroupResource()
		if !f.offers.Lacks(of) {
			continue
		}
		name := of.String()
		if so, ok := before[name]; ok {
			lacked[name] = so + passed
		} else {
			lacked[name] = 0
		}
	}
	if len(lacked) == 0 {
		err = m.store.DeleteDocument(ctx, lackedDocument)
	} else if data, err = json.Marshal(lacked); err == nil {
		err = m.store.PutDocument(ctx, lackedDocument, data)
	}
	if err != nil { // if the disk is full, the durations of the last successful write count after a restart
		klog.FromContext(ctx).V(2).Info("How long the API server has lacked resources is not stored", "err", err)
	}
	return lacked
}
