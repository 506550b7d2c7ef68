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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// Offers is what a server says about its resources.
type Offers struct {
	// All resources, in the order in which an ambiguous name is decided: as the server
	// orders its groups, the preferred version of each first.
	All []input.Resource
	// Unwatchable ones cannot be mirrored.
	Unwatchable map[schema.GroupVersionResource]bool
	// Failed is why some groups are missing; nil if none is.
	Failed error
}

// Discover asks the server. It fails if the server cannot be reached, not
// if some of its groups cannot.
func Discover(ctx context.Context, config *rest.Config) (Offers, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return Offers{}, err
	}
	groups, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the groups that are missing were not waited for
		return Offers{}, ctx.Err()
	case err != nil && !errors.As(err, &partial):
		return Offers{}, err
	}
	found := Offers{Unwatchable: map[schema.GroupVersionResource]bool{}}
	if partial != nil {
		found.Failed = partial
	}
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	for _, group := range groups {
		for _, version := range preferredFirst(group) {
			found.add(schema.GroupVersion{Group: group.Name, Version: version}, byVersion)
		}
	}
	return found, nil
}

func preferredFirst(group *metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.Version}
	for _, v := range group.Versions {
		if !slices.Contains(versions, v.Version) {
			versions = append(versions, v.Version)
		}
	}
	return versions
}

func (o *Offers) add(gv schema.GroupVersion, lists map[string]*metav1.APIResourceList) {
	list := lists[gv.String()]
	if list == nil {
		return
	}
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") { // a subresource
			continue
		}
		gvr := gv.WithResource(r.Name)
		o.All = append(o.All, input.Resource{GroupVersionResource: gvr, ResourceInfo: entry.ResourceInfo{
			Kind: r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames, Namespaced: r.Namespaced, Categories: r.Categories,
		}})
		if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
			o.Unwatchable[gvr] = true
		}
	}
}

// Resolver finds out which resources the arguments of sync name. What the
// store knows needs no server, so that a sync starts offline.
type Resolver struct {
	storePath string
	stored    []input.Resource
	// guessed are resources whose scope the store does not tell: the server is asked first.
	guessed []input.Resource
	// Patience is how long the server may take, if something is stored: then there is what to go on with. 0 is askFor.
	Patience time.Duration
	// discover asks the server; it is called once, if at all.
	discover func(ctx context.Context) (Offers, error)
	// offers is what it has said, and failed why it has not.
	offers *Offers
	failed error
}

// NewResolver returns a resolver for a store with these collections.
func NewResolver(storePath string, infos []entry.Info, discover func(context.Context) (Offers, error)) *Resolver {
	var stored, guessed []source.Collection
	for _, info := range infos {
		if c := source.NewCollection(info); c.Guessed {
			guessed = append(guessed, c)
		} else {
			stored = append(stored, c)
		}
	}
	return &Resolver{storePath: storePath, stored: input.StoredResources(stored), guessed: input.StoredResources(guessed),
		discover: discover}
}

// resolve returns the resource that arg names, or those of the category that it names.
func (r *Resolver) resolve(ctx context.Context, arg string) ([]input.Resource, error) {
	known := slices.DeleteFunc(slices.Clone(r.stored), func(s input.Resource) bool { return s.Kind == "" })
	stored := input.MatchResource(arg, known)
	if len(stored) == 1 {
		return stored, nil
	}
	if err := r.ask(ctx); err != nil {
		return r.offline(arg, known, stored, err)
	}
	found := input.MatchResource(arg, r.offers.All)
	members := r.offers.inCategory(arg)
	switch {
	case len(found) == 0 && len(members) > 0:
		return members, nil
	case len(found) == 0 && r.offers.Failed != nil:
		return nil, fmt.Errorf("the server has no resource %q in the groups that it could list: %w", arg, r.offers.Failed)
	case len(found) == 0:
		err := fmt.Errorf("the server has no resource %q", arg)
		if meant := input.DidYouMean(arg, r.offers.watchable()); meant != "" {
			err = fmt.Errorf("%w; %s", err, meant)
		}
		return nil, command.WithHint(err, "kubectl api-resources lists what it has")
	case r.offers.Unwatchable[found[0].GroupVersionResource]:
		return nil, fmt.Errorf("%s cannot be mirrored: the server does not let it be listed and watched", found[0])
	}
	return found[:1], nil
}

// Wanted returns the resources that w is about.
func (r *Resolver) Wanted(ctx context.Context, w Wanted) ([]input.Resource, error) {
	if !w.Everything {
		return r.resolve(ctx, w.Name)
	}
	all := slices.DeleteFunc(slices.Clone(r.stored), func(s input.Resource) bool { return s.Kind == "" })
	switch err := r.ask(ctx); {
	case err == nil && r.offers.Failed != nil:
		return nil, command.WithHint(fmt.Errorf("the server does not list all of its resources: %w", r.offers.Failed),
			"name those that you want in the place of --all")
	case err == nil:
		all = r.offers.Everything(len(w.Namespaces) > 0)
	case len(all) == 0:
		return nil, ServerError(err, fmt.Sprintf(", and nothing is stored in %s yet", r.storePath))
	}
	for _, name := range w.But {
		matched := append(input.MatchResource(name, all), input.InCategory(name, all)...)
		if len(matched) == 0 && r.offers != nil && len(input.MatchResource(name, r.offers.All)) == 0 {
			return nil, command.WithHint(fmt.Errorf("--exclude: the server has no resource %q", name),
				"kubectl api-resources lists what it has")
		}
		all = slices.DeleteFunc(all, func(a input.Resource) bool {
			return slices.ContainsFunc(matched,
				func(m input.Resource) bool { return m.GroupVersionResource == a.GroupVersionResource })
		})
	}
	return all, nil
}

// Asked reports whether the server has told what it has. If it has, an error of resolve is one of the argument.
func (r *Resolver) Asked() bool { return r.offers != nil }

// ask asks the server, once: over a link that loses what is sent each try takes all of its time, and meanwhile nothing
// is served.
func (r *Resolver) ask(ctx context.Context) error {
	if r.offers != nil || r.failed != nil {
		return r.failed
	}
	if len(r.stored)+len(r.guessed) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(r.Patience, AskFor))
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

// Unreached reports whether the server was asked and has not answered at all.
func (r *Resolver) Unreached() bool {
	var status apierrors.APIStatus
	return r.failed != nil && !errors.As(r.failed, &status)
}

// offline is what can be said without the server: err is why it could not be asked.
func (r *Resolver) offline(arg string, known, stored []input.Resource, err error) ([]input.Resource, error) {
	if guessed := input.MatchResource(arg, r.guessed); len(guessed) == 1 {
		return guessed, nil
	}
	if members := input.InCategory(arg, known); len(stored) == 0 && len(members) > 0 {
		return members, nil
	}
	if len(stored) == 0 && len(input.MatchResource(arg, []input.Resource{input.Secrets})) > 0 {
		// of which nothing is ever stored, unless it is asked for
		return []input.Resource{input.Secrets}, nil
	}
	return nil, r.unreachable(arg, stored, err)
}

// watchable are the resources that can be mirrored.
func (o *Offers) watchable() []input.Resource {
	return slices.DeleteFunc(slices.Clone(o.All),
		func(r input.Resource) bool { return o.Unwatchable[r.GroupVersionResource] })
}

// inCategory returns each resource of the category that can be mirrored once, in its preferred version.
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

func (r *Resolver) unreachable(arg string, stored []input.Resource, err error) error {
	if len(stored) > 1 {
		return command.WithHint(
			fmt.Errorf("%q is ambiguous: %s stores %s, and the API server could not be asked: %w", arg, r.storePath,
				input.Names(stored, input.Resource.Full), err),
			"say which, as in: larder sync %s", stored[0].Full())
	}
	return ServerError(err, fmt.Sprintf(", and nothing is stored of %q in %s yet", arg, r.storePath))
}

// Wanted is a resource, or a category, that is to be mirrored.
type Wanted struct {
	Name string
	// Everything asks for all resources that the server has, but for some, in the place of the name.
	Everything     bool
	But            []string
	Namespaces     []string // none is all
	Labels, Fields string
	Representation entry.Representation
	// Place is where the configuration asks for it; empty for an argument.
	Place string
}

// Identities are the collections of r that w asks for. The namespaces mean nothing to a resource that has none.
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

// At adds where the configuration asks for it.
func (w Wanted) At(err error) error {
	if w.Place == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", w.Place, err)
}

// Everything returns each resource that can be listed and watched once, in its preferred version, but events: they come
// to an end by themselves, and there are more of them than of all else. namespaced leaves out what is in no namespace.
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

// Named returns the resources that the names are of, each once.
func (o *Offers) Named(ctx context.Context, names []string) ([]input.Resource, error) {
	r := NewResolver("", nil, func(context.Context) (Offers, error) { return *o, nil })
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

// AskFor is how long the server may take to say whether a list makes sense to it.
const AskFor = 10 * time.Second
