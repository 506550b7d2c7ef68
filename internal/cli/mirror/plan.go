package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/limiter"
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

// othersTimeout limits the wait for each further response once the server has answered for one resource. A resource
// whose list hangs must not delay the others.
const othersTimeout = time.Second

// answered is the server's answer to the check of the planned resource with index n.
type answered struct {
	n   int
	err error
}

// probeAll asks the server to list each planned collection for which accepted returns false, several at a time. It
// returns an error for each collection that the server refuses. It waits cluster.DiscoveryTimeout for the first
// response, and othersTimeout for each further response.
func probeAll(ctx context.Context, plan []planned, accepted func(planned) bool) []error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, cluster.DiscoveryTimeout)
	defer cancel()
	slots := limiter.New()
	answers := make(chan answered, len(plan))
	waits := 0
	for n, p := range plan {
		if accepted(p) {
			continue
		}
		waits++
		wg.Go(func() {
			slot, err := slots.Connect(ctx, false, func(error) {})
			if err != nil {
				return
			}
			defer slot.Done()
			defer slot.Await()()
			if err = p.ask(ctx); ctx.Err() == nil {
				answers <- answered{n, err}
			}
		})
	}
	errs := make([]error, len(plan))
	var last <-chan time.Time
	for ; waits > 0; waits-- {
		select {
		case a := <-answers:
			errs[a.n], last = a.err, time.After(othersTimeout)
		case <-last:
			return errs
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

// ask lists one object of the collection. It returns only permanent errors, because the informer would retry for ever.
// It ignores other errors, such as a timeout, because the informer's retry may succeed.
func (p planned) ask(ctx context.Context) error {
	_, err := p.conn.ListWatch(p.identity).ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	what := p.resource.String()
	if sc := input.Scope(source.NewCollection(entry.Info{Identity: p.identity})); sc != "all" {
		what += " (" + sc + ")"
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return cluster.ServerError(err, "")
	case apierrors.IsBadRequest(err):
		return command.WithHint(fmt.Errorf("the API server refuses to list %s: %w", what, err),
			"check -l and --field-selector: many resources can be selected by the fields metadata.name and "+
				"metadata.namespace only")
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return command.WithHint(fmt.Errorf("the API server does not list %s: %w", what, err),
			"kubectl api-resources lists what it has")
	}
	return nil
}

// toSeal is the name of a resource in encryption.resources and the position of that name in the configuration.
type toSeal struct {
	name, place string
}

// sealsOf returns the names of resources to encrypt that the configuration itself lists in encryption.resources,
// without the default.
func sealsOf(c *config.Config) []toSeal {
	if c.Encryption == nil || !c.Encryption.Named {
		return nil
	}
	var all []toSeal
	for i, name := range c.Encryption.Resources {
		all = append(all, toSeal{name, fmt.Sprintf("%s: encryption.resources[%d]", c.File, i)})
	}
	return all
}

// checkSeals fails if a name in encryption.resources matches no resource that the sync mirrors. The name may be
// misspelled, and the intended resource would be stored in plain text. The error lists all names without a match. Names
// ignore case, as in the store. "secrets" is the default, and need not match.
func checkSeals(all []toSeal, plan []planned) error {
	var mirrored []input.Resource
	for _, p := range plan {
		mirrored = append(mirrored, p.resource)
	}
	var wrong []error
	for _, s := range all {
		fits := func(r input.Resource) bool {
			g := schema.ParseGroupResource(s.name)
			return strings.EqualFold(g.Group, r.Group) && strings.EqualFold(g.Resource, r.Resource)
		}
		if !fits(input.Secrets) && !slices.ContainsFunc(mirrored, fits) {
			wrong = append(wrong, fmt.Errorf("%s: %q is not the full name of what is mirrored, and would seal nothing; %s",
				s.place, s.name, s.meant(mirrored)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return command.Usage(errors.Join(wrong...))
}

// checkServed fails if Secrets are to be served but are only in memory, because the served API could not list them.
func checkServed(plan []planned, set settings, mo memberOptions) error {
	isSecrets := func(p planned) bool { return p.identity.GroupVersionResource == input.Secrets.GroupVersionResource }
	stored := set.persistSecrets || set.storeOptions().Encryption.Seals(input.Secrets.GroupResource())
	if !mo.servesSecrets || stored || !slices.ContainsFunc(plan, isSecrets) {
		return nil
	}
	return command.WithHint(command.Usagef("secrets are kept in memory only, and cannot be served"),
		"%s; or leave out --serve-secrets", mo.howStored())
}

func (mo *memberOptions) howStored() string {
	if mo.configured {
		return "encryption.keyFile in the configuration stores them sealed, persistSecrets as they are"
	}
	return "--key-file FILE stores them sealed, --persist-secrets as they are"
}

func (s toSeal) meant(mirrored []input.Resource) string {
	if like, ok := source.Match(s.name, mirrored); ok {
		return "write " + like.String()
	}
	if meant := input.DidYouMean(s.name, mirrored); meant != "" {
		return meant
	}
	return "mirrored are " + input.Names(mirrored, input.Resource.String)
}
