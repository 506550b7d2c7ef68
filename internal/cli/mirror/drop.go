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
	// lackedFor is how long the API server must lack a resource before a sync of everything drops its collections. The
	// server is asked every lackedEvery meanwhile.
	lackedFor, lackedEvery = 24 * time.Hour, time.Hour
	// lackedDocument is the store's document with the time for which the server has lacked resources: JSON of durations
	// by resource.group. Only time during which a sync ran and the server described the group counts. A stored
	// timestamp would count other time, too.
	lackedDocument = "lacked"
)

// dropper is the state of dropping collections that a sync no longer mirrors.
type dropper struct {
	// keep disables dropping.
	keep bool
	// asked is when the server last described its resources; zero if its last response failed.
	asked time.Time
	// waiting says that the server lacks a stored resource, or that a collection could not be dropped yet.
	waiting bool
}

// dropIsDue reports whether to ask the server again whether it still lacks a resource.
func (f *follower) dropIsDue() bool {
	return f.drop.waiting && f.now().Sub(f.drop.asked) >= lackedEvery
}

// dropUnnamed drops the collections that earlier arguments or configuration named and the current ones do not. In a
// sync of everything it also drops collections of resources that the server has lacked for lackedFor. It uses f.offers,
// which the server returned at the time asked. An open collection is dropped later.
func (m *mirror) dropUnnamed(ctx context.Context, f *follower, asked time.Time) {
	if f.drop.keep || f.offers == nil {
		return
	}
	infos, err := m.store.Collections(ctx)
	if err != nil {
		return // the members report the store's error
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

// drop drops a collection. If a member mirrors it, drop ends the member; the collection is dropped by a later call,
// once the member has closed it.
func (m *mirror) drop(ctx context.Context, f *follower, info entry.Info, why string) {
	for _, mb := range m.all() {
		if mb.identity == info.Identity {
			m.end(mb)
			f.drop.waiting, f.drop.asked = true, time.Time{} // retries soon
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

// countLacked updates the stored durations for which the server has lacked the resources of collections, and returns
// them by resource.group. The time between two responses counts if both lack the resource.
func (m *mirror) countLacked(
	ctx context.Context, f *follower, asked time.Time, infos []entry.Info,
) map[string]time.Duration {
	var before map[string]time.Duration
	data, err := m.store.Document(ctx, lackedDocument)
	if err == nil {
		_ = json.Unmarshal(data, &before) // an unreadable document counts from zero
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
	if err != nil { // such as a full disk: the durations start again after a restart
		klog.FromContext(ctx).V(2).Info("How long the API server has lacked resources is not stored", "err", err)
	}
	return lacked
}
