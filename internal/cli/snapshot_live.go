package cli

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/snapshot"
)

// saveLive saves what a live cluster has.
func (o *saveOptions) saveLive(
	ctx context.Context, s IO, path string, args []string, so snapshot.SaveOptions,
) (snapshot.Saved, error) {
	config, err := clientConfig(o.cluster)
	if err != nil {
		return snapshot.Saved{}, err
	}
	conn, err := connect(config)
	if err != nil {
		return snapshot.Saved{}, err
	}
	defer conn.http.CloseIdleConnections()
	lists, err := o.listings(ctx, config, conn, path, args)
	if err != nil {
		return snapshot.Saved{}, err
	}
	if so.Header.ClusterID, err = requests.KubeSystemUID(conn.raw)(ctx); ctx.Err() != nil { // which is all that is wrong
		return snapshot.Saved{}, ctx.Err()
	} else if err != nil {
		fmt.Fprintf(s.Err,
			"note: the namespace kube-system cannot be read, so the snapshot does not say which cluster it is of: %v\n", err)
	}
	if so.Header.ServerVersion, err = serverVersion(ctx, conn.raw); err != nil {
		return snapshot.Saved{}, serverError(err, "")
	}
	saved, err := snapshot.SaveServer(ctx, lists, path, so)
	if err != nil && errors.Is(err, conn.failed) { // and not the file that is written
		err = serverError(err, "")
	}
	return saved, err
}

// listings are the collections that are saved: those of the arguments, or all.
func (o *saveOptions) listings(
	ctx context.Context, config *rest.Config, conn *connection, path string, args []string,
) ([]snapshot.Listing, error) {
	found, err := discover(ctx, config)
	if err != nil {
		return nil, serverError(err, "")
	}
	if err := noResource(path, found.all); err != nil {
		return nil, err
	}
	resources, optional := found.everything(len(o.selects.namespaces) > 0), true
	if names := splitArgs(args); len(names) > 0 {
		optional = false
		if resources, err = found.named(ctx, names); err != nil {
			return nil, err
		}
	}
	w := wanted{namespaces: o.selects.namespaces, labels: o.selects.labels, fields: o.selects.fields,
		representation: entry.Unstructured}
	var all []snapshot.Listing
	for _, r := range resources {
		r = conn.described(ctx, r)
		ids, err := w.identities(r)
		if err != nil {
			return nil, usageError{err}
		}
		for _, id := range ids {
			all = append(all, conn.listing(ctx, id, r, optional))
		}
	}
	if optional && found.failed != nil {
		return all,
			fmt.Errorf("the server does not list all of its resources, so not all can be saved; name those that you want: %w",
				found.failed)
	}
	return all, nil
}

// described is a resource with the columns of its definition, if it has one that can be read: discovery does not tell
// them.
func (c *connection) described(ctx context.Context, r resource) resource {
	if !isCustom(r.GroupVersionResource) {
		return r
	}
	limited, cancel := context.WithTimeout(ctx, definitionWait)
	defer cancel()
	if info, err := c.define(limited, r.GroupVersionResource); err == nil {
		r.ResourceInfo = info
	}
	return r
}

// listing lists one collection.
func (c *connection) listing(ctx context.Context, id entry.Identity, r resource, optional bool) snapshot.Listing {
	objects := c.dynamic.Resource(id.GroupVersionResource).Namespace(id.Namespace)
	schema, _ := c.schemas.Hash(r.GroupVersion())(ctx) // unknown is no error: the server tells it later
	return snapshot.Listing{
		Identity: id, Resource: r.ResourceInfo, OpenAPI: schema, Optional: optional,
		List: func(ctx context.Context, o metav1.ListOptions) (_ runtime.Object, err error) {
			list, err := objects.List(ctx, o)
			c.failed = err
			return list, err
		},
	}
}

// everything returns each resource that can be listed and watched once, in its preferred version, but events: they come
// to an end by themselves, and there are more of them than of all else. namespaced leaves out what is in no namespace.
func (o *offers) everything(namespaced bool) []resource {
	var all []resource
	seen := map[string]bool{}
	for _, r := range o.all {
		name := r.GroupResource().String()
		if seen[name] || r.Resource == "events" || o.unwatchable[r.GroupVersionResource] || namespaced && !r.Namespaced {
			continue
		}
		seen[name] = true
		all = append(all, r)
	}
	return all
}

// named returns the resources that the names are of, each once.
func (o *offers) named(ctx context.Context, names []string) ([]resource, error) {
	r := newResolver("", nil, func(context.Context) (offers, error) { return *o, nil })
	var all []resource
	seen := map[string]bool{}
	var failed []error
	for _, name := range names {
		found, err := r.resolve(ctx, name)
		if err != nil {
			failed = append(failed, err)
		}
		for _, one := range found {
			if !seen[one.full()] {
				seen[one.full()] = true
				all = append(all, one)
			}
		}
	}
	return all, errors.Join(failed...)
}
