package mirror

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/source"
)

// planned is a collection that the sync is about to mirror. The store has nothing of it yet.
type planned struct {
	resource input.Resource
	identity entry.Identity
	conn     *cluster.Connection
	wanted   cluster.Wanted
}

// optional reports whether --all or a category requested the collection, and not the resource's own name.
func (p planned) optional() bool {
	_, named := source.Match(p.wanted.Name, []input.Resource{p.resource})
	return p.wanted.Everything || !named
}

type planner struct {
	storePath string
	config    *rest.Config
	// patience limits the discovery request if something is stored, because the sync can start without discovery. 0 means
	// cluster.DiscoveryTimeout, or StoredDiscoveryTimeout if all requested resources are stored.
	patience time.Duration
}

// plan returns the collections to mirror. It asks the server whether it can list the resources that are not stored yet,
// so that nothing is stored for a resource that the server refuses.
func (pl planner) plan(
	ctx context.Context, server *cluster.Server, infos []entry.Info, known *facts.Discovery, all []cluster.Wanted,
) (plan []planned, offers *cluster.Offers, err error) {
	r := cluster.NewResolver(pl.storePath, infos, known,
		func(ctx context.Context) (cluster.Offers, error) { return server.Discover(ctx, known) })
	if r.Patience = pl.patience; r.Patience == 0 && r.Holds(all) {
		r.Patience = cluster.StoredDiscoveryTimeout
	}
	// If the server is unreachable the plan is not checked: the informers wait for the server.
	if plan, err = resolve(ctx, server, r, all); err != nil || r.Unreached() {
		return plan, r.Offers(), err
	}
	answers := probeAll(ctx, plan, func(p planned) bool {
		// A stored collection needs no check: the server accepted it in an earlier sync.
		return slices.ContainsFunc(infos, func(i entry.Info) bool { return i.Identity == p.identity && i.Complete })
	})
	var agreed []planned
	for i, p := range plan {
		switch err := answers[i]; {
		case err != nil && p.wanted.Everything && !apierrors.IsUnauthorized(err):
			klog.FromContext(ctx).Info("Not mirrored, though the server names it", "resource", p.resource.String(), "why",
				err.Error())
			continue
		case err != nil:
			return plan, r.Offers(), p.wanted.At(err)
		}
		agreed = append(agreed, p)
	}
	return agreed, r.Offers(), nil
}

// resolve returns the requested collections without duplicates, with connections to the server. Its error lists all
// names that the server does not know.
func resolve(
	ctx context.Context, server *cluster.Server, r *cluster.Resolver, all []cluster.Wanted,
) (plan []planned, err error) {
	var unknown []error
	for _, w := range all {
		resources, err := r.Wanted(ctx, w)
		if err != nil {
			unknown = append(unknown, w.At(err))
			if r.Offers() != nil {
				continue // the returned error lists all unknown names
			}
			break
		}
		for _, res := range resources {
			ids, err := w.Identities(res)
			if err != nil {
				return plan, err
			}
			for _, id := range ids {
				same := func(p planned) bool { return p.identity == id }
				if i := slices.IndexFunc(plan, same); i >= 0 {
					plan[i].resource.RequestedAs = append(plan[i].resource.RequestedAs, res.RequestedAs...)
					continue
				}
				conn, err := server.Connect()
				if err != nil {
					return plan, err
				}
				plan = append(plan, planned{resource: res, identity: id, conn: conn, wanted: w})
			}
		}
	}
	return plan, errors.Join(unknown...)
}
