package cli

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
)

// saveLive saves what a live cluster has.
func (o *saveOptions) saveLive(
	ctx context.Context, s command.IO, path string, args []string, so snapshot.SaveOptions,
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
	resources, optional := found.everything(len(o.selects.Namespaces) > 0), true
	if names := input.SplitArgs(args); len(names) > 0 {
		optional = false
		if resources, err = found.named(ctx, names); err != nil {
			return nil, err
		}
	}
	w := wanted{namespaces: o.selects.Namespaces, labels: o.selects.Labels, fields: o.selects.Fields,
		representation: entry.Unstructured}
	var all []snapshot.Listing
	for _, r := range resources {
		r = conn.described(ctx, r)
		ids, err := w.identities(r)
		if err != nil {
			return nil, command.Usage(err)
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
