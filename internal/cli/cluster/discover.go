package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/source"
)

// Offers holds the resources that a server offers, according to its discovery.
type Offers struct {
	// All holds the resources that can be listed and watched, in kubectl's order: a name that several resources share
	// means the first of them.
	All []input.Resource
	// Unwatchable holds the server's resources that cannot be listed and watched, and so not mirrored.
	Unwatchable map[schema.GroupVersionResource]bool
	// Failed is a *discovery.ErrGroupDiscoveryFailed with the group versions that the server lists but cannot describe
	// now, if any. All contains the resources of these group versions from an earlier discovery.
	Failed    error
	Discovery *facts.Discovery
}

// Discover requests the server's discovery. known is the previous discovery, or nil. Unavailable API groups are no
// error.
func (s *Server) Discover(ctx context.Context, known *facts.Discovery) (Offers, error) {
	client, err := s.discovery()
	if err != nil {
		return Offers{}, err
	}
	d, err := facts.FetchDiscovery(ctx, client.RESTClient(), known)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		// After an interruption, missing group versions are not reported as unavailable.
		return Offers{}, ctx.Err()
	case err != nil && !discovery.IsGroupDiscoveryFailedError(err):
		return Offers{}, err
	}
	return offersOf(&d, err), nil
}

func offersOf(d *facts.Discovery, failed error) Offers {
	o := Offers{All: source.Offered(d), Unwatchable: map[schema.GroupVersionResource]bool{}, Failed: failed, Discovery: d}
	for _, r := range o.All {
		if said, _ := d.Resource(r.GroupVersionResource); !slices.Contains(said.Verbs, "list") ||
			!slices.Contains(said.Verbs, "watch") {
			o.Unwatchable[r.GroupVersionResource] = true
		}
	}
	return o
}

func (o *Offers) lacks(gv schema.GroupVersion) bool {
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(o.Failed)
	_, ok := failed[gv]
	return ok
}

// Lacks reports whether the server has described all versions of an API group, and none of them has the resource.
func (o *Offers) Lacks(of schema.GroupResource) bool {
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(o.Failed)
	for gv := range failed {
		if gv.Group == of.Group {
			return false
		}
	}
	return !slices.ContainsFunc(o.All, func(r input.Resource) bool { return r.GroupResource() == of })
}

// Missing returns the group versions that the server currently cannot describe, and the reason for one of them.
func (o *Offers) Missing() (names []string, why string) {
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(o.Failed)
	for gv, err := range failed {
		names, why = append(names, gv.String()), err.Error()
	}
	slices.Sort(names)
	return names, why
}

// Resolver resolves the names in the arguments of sync to resources, with the server's discovery. Without discovery
// names keep the meaning they had when the resources were stored, so that a sync can start offline.
type Resolver struct {
	storePath string
	stored    []input.Resource
	// Patience limits the discovery request if resources are stored, because the sync can start without discovery. 0 means
	// DiscoveryTimeout.
	Patience time.Duration
	discover func(ctx context.Context) (Offers, error)
	// offers is the result of discover, and failed its error; both are nil before the call.
	offers *Offers
	failed error
}

// NewResolver returns a resolver for a store with the given collections. known is the stored discovery, or nil.
func NewResolver(
	storePath string, infos []entry.Info, known *facts.Discovery, discover func(context.Context) (Offers, error),
) *Resolver {
	var stored []source.Collection
	for _, info := range infos {
		stored = append(stored, source.NewCollection(info))
	}
	source.SetMeanings(stored, known)
	return &Resolver{storePath: storePath, stored: input.StoredResources(stored), discover: discover}
}

func (r *Resolver) resolve(ctx context.Context, arg string) ([]input.Resource, error) {
	if err := r.ask(ctx); err != nil {
		return r.offline(arg, err)
	}
	if found, ok := source.Match(arg, r.offers.All); ok {
		if r.offers.Unwatchable[found.GroupVersionResource] {
			return nil, fmt.Errorf("%s cannot be mirrored: the server does not let it be listed and watched", found)
		}
		found.RequestedAs = []string{strings.ToLower(arg)}
		return []input.Resource{found}, nil
	}
	if members := r.offers.inCategory(arg); len(members) > 0 {
		return members, nil
	}
	if stored, ok := source.Match(arg, r.named()); ok {
		// The server does not serve the resource now, but its definition may be created again: the stored name stays valid.
		return []input.Resource{stored}, nil
	}
	if r.offers.Failed != nil {
		return nil, fmt.Errorf("the server has no resource %q in the groups that it could list: %w", arg, r.offers.Failed)
	}
	err := fmt.Errorf("the server has no resource %q", arg)
	if meant := input.DidYouMean(arg, r.offers.watchable()); meant != "" {
		err = fmt.Errorf("%w; %s", err, meant)
	}
	return nil, command.WithHint(err, "kubectl api-resources lists what it has")
}

// Wanted returns the resources that the request w, such as a name, a category or --all, includes.
func (r *Resolver) Wanted(ctx context.Context, w Wanted) ([]input.Resource, error) {
	if !w.Everything {
		return r.resolve(ctx, w.Name)
	}
	err := r.ask(ctx)
	all := r.present()
	switch {
	case err == nil:
		offered := r.offers.Everything(len(w.Namespaces) > 0)
		away := slices.DeleteFunc(without(all, offered), func(s input.Resource) bool {
			return !r.offers.lacks(s.GroupVersion()) || len(w.Namespaces) > 0 && !s.Namespaced
		})
		all = append(offered, away...)
	case len(all) == 0:
		return nil, ServerError(err, fmt.Sprintf(", and nothing is stored in %s yet", r.storePath))
	}
	for _, name := range w.But {
		excluded, err := r.excluded(name, all)
		if err != nil {
			return nil, err
		}
		all = without(all, excluded)
	}
	return all, nil
}

// Covers reports whether the request w includes a stored collection, in any version of its resource. Names by which the
// user requested the collection earlier count, too. While the server lacks the resource, a name without a known meaning
// may be the resource's name.
func (r *Resolver) Covers(ctx context.Context, w Wanted, c entry.Info) bool {
	stored := input.Resource{GroupVersionResource: c.Identity.GroupVersionResource, ResourceInfo: c.Resource}
	if ids, err := w.Identities(stored); err != nil || !slices.Contains(ids, c.Identity) {
		return false
	}
	same := func(o input.Resource) bool { return o.GroupResource() == stored.GroupResource() }
	if w.Everything {
		return !slices.ContainsFunc(w.But, func(name string) bool {
			excluded, _ := r.excluded(name, []input.Resource{stored})
			return slices.ContainsFunc(excluded, same)
		})
	}
	name := strings.ToLower(w.Name)
	found, err := r.resolve(ctx, w.Name)
	return err != nil || slices.ContainsFunc(found, same) || slices.Contains(c.Resource.RequestedAs, name) ||
		slices.Contains(c.Resource.Categories, name)
}

func (r *Resolver) named() []input.Resource {
	return slices.DeleteFunc(slices.Clone(r.stored), func(s input.Resource) bool { return s.Kind == "" })
}

// present returns the stored resources with known names, without versions that the server has replaced.
func (r *Resolver) present() []input.Resource {
	return slices.DeleteFunc(r.named(), func(s input.Resource) bool { return s.Retired })
}

func without(all, others []input.Resource) []input.Resource {
	return slices.DeleteFunc(slices.Clone(all), func(a input.Resource) bool {
		return slices.ContainsFunc(others, func(o input.Resource) bool { return o.GroupResource() == a.GroupResource() })
	})
}

// excluded returns the resources that a name given to --exclude excludes: one resource, or the resources in all that
// are in the category of that name.
func (r *Resolver) excluded(name string, all []input.Resource) ([]input.Resource, error) {
	known := all
	if r.offers != nil {
		known = r.offers.All
	}
	members := input.InCategory(name, all)
	if found, ok := source.Match(name, known); ok {
		return append(members, found), nil
	}
	if len(members) == 0 && r.offers != nil && r.offers.Failed == nil {
		return nil, command.WithHint(fmt.Errorf("--exclude: the server has no resource %q", name),
			"kubectl api-resources lists what it has")
	}
	return members, nil
}

// Offers returns the server's discovery; nil if it was not requested or failed.
func (r *Resolver) Offers() *Offers { return r.offers }

// ask requests discovery once and does not retry. On a connection that drops packets every attempt lasts until its
// timeout, and the sync serves nothing meanwhile.
func (r *Resolver) ask(ctx context.Context) error {
	if r.offers != nil || r.failed != nil {
		return r.failed
	}
	if len(r.stored) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(r.Patience, DiscoveryTimeout))
		defer cancel()
	}
	found, err := r.discover(ctx)
	if err != nil {
		r.failed = err
		return err
	}
	r.offers = &found
	return nil
}

// Unreached reports whether the discovery request failed without a response from the server.
func (r *Resolver) Unreached() bool {
	var status apierrors.APIStatus
	return r.failed != nil && !errors.As(r.failed, &status)
}

// offline resolves the name arg to stored resources, after the discovery request has failed with err.
func (r *Resolver) offline(arg string, err error) ([]input.Resource, error) {
	if found, ok := source.Match(arg, r.named()); ok {
		return []input.Resource{found}, nil
	}
	if members := input.InCategory(arg, r.present()); len(members) > 0 {
		return members, nil
	}
	if _, ok := source.Match(arg, []input.Resource{input.Secrets}); ok {
		// Secrets are never stored unless the user requests them, so a store may not know the name.
		return []input.Resource{input.Secrets}, nil
	}
	return nil, ServerError(err, fmt.Sprintf(", and nothing is stored of %q in %s yet", arg, r.storePath))
}

func (o *Offers) watchable() []input.Resource {
	return slices.DeleteFunc(slices.Clone(o.All),
		func(r input.Resource) bool { return o.Unwatchable[r.GroupVersionResource] })
}

func (o *Offers) inCategory(name string) []input.Resource {
	var members []input.Resource
	for _, r := range input.InCategory(name, o.All) {
		same := func(m input.Resource) bool { return m.GroupResource() == r.GroupResource() }
		if !o.Unwatchable[r.GroupVersionResource] && !slices.ContainsFunc(members, same) {
			members = append(members, r)
		}
	}
	return members
}

// Wanted is a user's request to mirror a resource, the resources of a category, or everything.
type Wanted struct {
	Name string
	// Everything, set instead of Name, requests all resources of the server except the names in But.
	Everything     bool
	But            []string
	Namespaces     []string // empty Namespaces mean all
	Labels, Fields string
	Representation entry.Representation
	// Place is the position of the request in the configuration file; empty for a command-line argument.
	Place string
}

// Identities returns the identities of the collections of resource r that the request includes: one for each namespace.
// A cluster-scoped resource has one collection in spite of the namespaces.
func (w Wanted) Identities(r input.Resource) ([]entry.Identity, error) {
	id := entry.Identity{
		GroupVersionResource: r.GroupVersionResource, LabelSelector: w.Labels, FieldSelector: w.Fields,
		Representation: w.Representation,
	}
	namespaces := []string{""}
	if r.Namespaced && len(w.Namespaces) > 0 {
		namespaces = w.Namespaces
	}
	var all []entry.Identity
	for _, id.Namespace = range namespaces {
		canonical, err := id.Canonical()
		if err != nil {
			return nil, w.At(err)
		}
		all = append(all, canonical)
	}
	return all, nil
}

// At prefixes an error with the request's position in the configuration file.
func (w Wanted) At(err error) error {
	if w.Place == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", w.Place, err)
}

// Everything returns each resource that can be mirrored, in its preferred version, except events: they expire by
// themselves, and often outnumber all other objects. namespaced leaves out cluster-scoped resources.
func (o *Offers) Everything(namespaced bool) []input.Resource {
	var all []input.Resource
	seen := map[string]bool{}
	for _, r := range o.All {
		name := r.GroupResource().String()
		if seen[name] || r.Resource == "events" || o.Unwatchable[r.GroupVersionResource] || namespaced && !r.Namespaced {
			continue
		}
		seen[name] = true
		all = append(all, r)
	}
	return all
}

// Named returns the resources that the names mean, each resource once.
func (o *Offers) Named(ctx context.Context, names []string) ([]input.Resource, error) {
	r := NewResolver("", nil, nil, func(context.Context) (Offers, error) { return *o, nil })
	var all []input.Resource
	seen := map[string]bool{}
	var failed []error
	for _, name := range names {
		found, err := r.resolve(ctx, name)
		if err != nil {
			failed = append(failed, err)
		}
		for _, one := range found {
			if !seen[one.Full()] {
				seen[one.Full()] = true
				all = append(all, one)
			}
		}
	}
	return all, errors.Join(failed...)
}

// Holds reports whether resources are stored for each of the requests in all.
func (r *Resolver) Holds(all []Wanted) bool {
	return !slices.ContainsFunc(all, func(w Wanted) bool {
		_, ok := source.Match(w.Name, r.named())
		return !ok && !w.Everything && len(input.InCategory(w.Name, r.present())) == 0 || len(r.stored) == 0
	})
}

// DiscoveryTimeout is the default limit of a discovery request if resources are stored, because a sync can start
// without discovery.
const DiscoveryTimeout = 10 * time.Second

// StoredDiscoveryTimeout limits the discovery request if all requested resources are stored, because a sync serves no
// objects while it waits.
const StoredDiscoveryTimeout = 3 * time.Second
