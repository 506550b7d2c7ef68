package cli

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
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// offers is what a server says about its resources.
type offers struct {
	// all resources, in the order in which an ambiguous name is decided: as the server
	// orders its groups, the preferred version of each first.
	all []resource
	// unwatchable ones cannot be mirrored.
	unwatchable map[schema.GroupVersionResource]bool
	// failed is why some groups are missing; nil if none is.
	failed error
}

// discover asks the server. It fails if the server cannot be reached, not
// if some of its groups cannot.
func discover(ctx context.Context, config *rest.Config) (offers, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return offers{}, err
	}
	groups, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the groups that are missing were not waited for
		return offers{}, ctx.Err()
	case err != nil && !errors.As(err, &partial):
		return offers{}, err
	}
	found := offers{unwatchable: map[schema.GroupVersionResource]bool{}}
	if partial != nil {
		found.failed = partial
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

func (o *offers) add(gv schema.GroupVersion, lists map[string]*metav1.APIResourceList) {
	list := lists[gv.String()]
	if list == nil {
		return
	}
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") { // a subresource
			continue
		}
		gvr := gv.WithResource(r.Name)
		o.all = append(o.all, resource{gvr, entry.ResourceInfo{
			Kind: r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames, Namespaced: r.Namespaced, Categories: r.Categories,
		}})
		if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
			o.unwatchable[gvr] = true
		}
	}
}

// resolver finds out which resources the arguments of sync name. What the
// store knows needs no server, so that a sync starts offline.
type resolver struct {
	storePath string
	stored    []resource
	// guessed are resources whose scope the store does not tell: the server is asked first.
	guessed []resource
	// patience is how long the server may take, if something is stored: then there is what to go on with. 0 is askFor.
	patience time.Duration
	// discover asks the server; it is called once, if at all.
	discover func(ctx context.Context) (offers, error)
	// offers is what it has said, and failed why it has not.
	offers *offers
	failed error
}

func newResolver(storePath string, infos []store.Info, discover func(context.Context) (offers, error)) *resolver {
	var stored, guessed []source.Collection
	for _, info := range infos {
		if c := source.NewCollection(info); c.Guessed {
			guessed = append(guessed, c)
		} else {
			stored = append(stored, c)
		}
	}
	return &resolver{storePath: storePath, stored: storedResources(stored), guessed: storedResources(guessed),
		discover: discover}
}

// resolve returns the resource that arg names, or those of the category that it names.
func (r *resolver) resolve(ctx context.Context, arg string) ([]resource, error) {
	known := slices.DeleteFunc(slices.Clone(r.stored), func(s resource) bool { return s.Kind == "" })
	stored := matchResource(arg, known)
	if len(stored) == 1 {
		return stored, nil
	}
	if err := r.ask(ctx); err != nil {
		return r.offline(arg, known, stored, err)
	}
	found := matchResource(arg, r.offers.all)
	members := r.offers.inCategory(arg)
	switch {
	case len(found) == 0 && len(members) > 0:
		return members, nil
	case len(found) == 0 && r.offers.failed != nil:
		return nil, fmt.Errorf("the server has no resource %q in the groups that it could list: %w", arg, r.offers.failed)
	case len(found) == 0:
		err := fmt.Errorf("the server has no resource %q", arg)
		if meant := didYouMean(arg, r.offers.watchable()); meant != "" {
			err = fmt.Errorf("%w; %s", err, meant)
		}
		return nil, withHint(err, "kubectl api-resources lists what it has")
	case r.offers.unwatchable[found[0].GroupVersionResource]:
		return nil, fmt.Errorf("%s cannot be mirrored: the server does not let it be listed and watched", found[0])
	}
	return found[:1], nil
}

// wanted returns the resources that w is about.
func (r *resolver) wanted(ctx context.Context, w wanted) ([]resource, error) {
	if !w.everything {
		return r.resolve(ctx, w.name)
	}
	all := slices.DeleteFunc(slices.Clone(r.stored), func(s resource) bool { return s.Kind == "" })
	switch err := r.ask(ctx); {
	case err == nil && r.offers.failed != nil:
		return nil, withHint(fmt.Errorf("the server does not list all of its resources: %w", r.offers.failed),
			"name those that you want in the place of --all")
	case err == nil:
		all = r.offers.everything(len(w.namespaces) > 0)
	case len(all) == 0:
		return nil, serverError(err, fmt.Sprintf(", and nothing is stored in %s yet", r.storePath))
	}
	for _, name := range w.but {
		matched := append(matchResource(name, all), inCategory(name, all)...)
		if len(matched) == 0 && r.offers != nil && len(matchResource(name, r.offers.all)) == 0 {
			return nil, withHint(fmt.Errorf("--exclude: the server has no resource %q", name),
				"kubectl api-resources lists what it has")
		}
		all = slices.DeleteFunc(all, func(a resource) bool {
			return slices.ContainsFunc(matched,
				func(m resource) bool { return m.GroupVersionResource == a.GroupVersionResource })
		})
	}
	return all, nil
}

// asked reports whether the server has told what it has. If it has, an error of resolve is one of the argument.
func (r *resolver) asked() bool { return r.offers != nil }

// ask asks the server, once: over a link that loses what is sent each try takes all of its time, and meanwhile nothing
// is served.
func (r *resolver) ask(ctx context.Context) error {
	if r.offers != nil || r.failed != nil {
		return r.failed
	}
	if len(r.stored)+len(r.guessed) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(r.patience, askFor))
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

// unreached reports whether the server was asked and has not answered at all.
func (r *resolver) unreached() bool {
	var status apierrors.APIStatus
	return r.failed != nil && !errors.As(r.failed, &status)
}

// offline is what can be said without the server: err is why it could not be asked.
func (r *resolver) offline(arg string, known, stored []resource, err error) ([]resource, error) {
	if guessed := matchResource(arg, r.guessed); len(guessed) == 1 {
		return guessed, nil
	}
	if members := inCategory(arg, known); len(stored) == 0 && len(members) > 0 {
		return members, nil
	}
	if len(stored) == 0 && len(matchResource(arg, []resource{secrets})) > 0 {
		// of which nothing is ever stored, unless it is asked for
		return []resource{secrets}, nil
	}
	return nil, r.unreachable(arg, stored, err)
}

// inCategory returns those of a category, such as all.
func inCategory(name string, known []resource) []resource {
	var members []resource
	for _, r := range known {
		if slices.Contains(r.Categories, strings.ToLower(name)) {
			members = append(members, r)
		}
	}
	return members
}

// watchable are the resources that can be mirrored.
func (o *offers) watchable() []resource {
	return slices.DeleteFunc(slices.Clone(o.all), func(r resource) bool { return o.unwatchable[r.GroupVersionResource] })
}

// inCategory returns each resource of the category that can be mirrored once, in its preferred version.
func (o *offers) inCategory(name string) []resource {
	var members []resource
	for _, r := range inCategory(name, o.all) {
		same := func(m resource) bool { return m.GroupResource() == r.GroupResource() }
		if !o.unwatchable[r.GroupVersionResource] && !slices.ContainsFunc(members, same) {
			members = append(members, r)
		}
	}
	return members
}

func (r *resolver) unreachable(arg string, stored []resource, err error) error {
	if len(stored) > 1 {
		return withHint(
			fmt.Errorf("%q is ambiguous: %s stores %s, and the API server could not be asked: %w", arg, r.storePath,
				names(stored, resource.full), err),
			"say which, as in: larder sync %s", stored[0].full())
	}
	return serverError(err, fmt.Sprintf(", and nothing is stored of %q in %s yet", arg, r.storePath))
}
