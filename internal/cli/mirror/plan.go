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

// planned is one resource that is about to be mirrored. Nothing has been stored for it yet.
type planned struct {
	resource input.Resource
	identity entry.Identity
	conn     *cluster.Connection
	wanted   cluster.Wanted
}

// optional reports whether --all or a category has brought the resource, not its own name.
func (p planned) optional() bool {
	_, named := source.Match(p.wanted.Name, []input.Resource{p.resource})
	return p.wanted.Everything || !named
}

// planner finds out what is to be mirrored.
type planner struct {
	storePath string
	config    *rest.Config
	// patience is how long the server may take to tell its resources, if something is stored. 0 is askFor.
	patience time.Duration
}

// plan resolves what is wanted, and asks the server about what is not stored yet, so that what it refuses
// leaves nothing behind.
func (pl planner) plan(
	ctx context.Context, server *cluster.Server, infos []entry.Info, known *facts.Discovery, all []cluster.Wanted,
) (plan []planned, offers *cluster.Offers, err error) {
	r := cluster.NewResolver(pl.storePath, infos, known,
		func(ctx context.Context) (cluster.Offers, error) { return server.Discover(ctx, known) })
	if r.Patience = pl.patience; r.Patience == 0 && r.Holds(all) {
		r.Patience = cluster.AskHeld
	}
	if plan, err = resolve(ctx, server, r, all); err != nil || r.Unreached() { // the informers wait for the server
		return plan, r.Offers(), err
	}
	answers := askAll(ctx, plan, func(p planned) bool { // the server has accepted it once
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

// resolve finds out which collections are wanted, each once, and makes the clients for each. Its error has all
// that the server does not know.
func resolve(
	ctx context.Context, server *cluster.Server, r *cluster.Resolver, all []cluster.Wanted,
) (plan []planned, err error) {
	var unknown []error
	for _, w := range all {
		resources, err := r.Wanted(ctx, w)
		if err != nil {
			unknown = append(unknown, w.At(err))
			if r.Offers() != nil {
				continue // the others may be wrong, too
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
