package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/snapshot"
)

func (o *saveOptions) saveLive(
	ctx context.Context, s command.IO, path string, args []string, so snapshot.SaveOptions,
) (snapshot.Saved, error) {
	config, err := cluster.Config(o.cluster)
	if err != nil {
		return snapshot.Saved{}, err
	}
	server, err := cluster.NewServer(config)
	if err != nil {
		return snapshot.Saved{}, err
	}
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		return snapshot.Saved{}, err
	}
	lists, err := o.listings(ctx, s, conn, path, args)
	if err != nil {
		return snapshot.Saved{}, err
	}
	if so.Header.ClusterID, err = conn.ClusterID(ctx); ctx.Err() != nil {
		// After an interruption, only the interruption is reported.
		return snapshot.Saved{}, ctx.Err()
	} else if err != nil {
		fmt.Fprintf(s.Err,
			"note: the namespace kube-system cannot be read, so the snapshot does not say which cluster it is of: %v\n", err)
	}
	if so.Header.ServerVersion, err = cluster.ServerVersion(ctx, conn.Raw); err != nil {
		return snapshot.Saved{}, cluster.ServerError(err, "")
	}
	if so.Documents, err = o.learn(ctx, conn, lists, so.Header.ClusterID); ctx.Err() != nil {
		return snapshot.Saved{}, ctx.Err()
	} else if err != nil {
		fmt.Fprintf(s.Err, "note: the snapshot does not have all that the server says of itself, such as schemas for "+
			"kubectl explain: %v\n", err)
	}
	saved, err := snapshot.SaveServer(ctx, lists, path, so)
	if err != nil && errors.Is(err, conn.Failed) { // the server's error is explained only if the list failed at the server
		err = cluster.ServerError(err, "")
	}
	return saved, err
}

// learn requests facts about the server (version, OpenAPI schemas, keys) for a snapshot. It omits facts that the server
// does not provide.
func (o *saveOptions) learn(
	ctx context.Context, conn *cluster.Connection, lists []snapshot.Listing, clusterID string,
) (facts.Memory, error) {
	ask := facts.Ask{Client: conn.Raw, Cluster: clusterID, Schemas: o.schemas,
		Hash: func(ctx context.Context, gv schema.GroupVersion) (string, error) { return conn.Schemas.Hash(gv)(ctx) }}
	for _, l := range lists {
		if gv := l.Identity.GroupVersion(); !slices.Contains(ask.Of, gv) {
			ask.Of = append(ask.Of, gv)
		}
	}
	known := facts.Memory{}
	return known, facts.Refresh(ctx, known, ask)
}

// listings returns the lists to save as a snapshot, one for each collection: those that the arguments name, or all.
func (o *saveOptions) listings(
	ctx context.Context, s command.IO, conn *cluster.Connection, path string, args []string,
) ([]snapshot.Listing, error) {
	found, err := conn.Discover(ctx, nil)
	if err != nil {
		return nil, cluster.ServerError(err, "")
	}
	if err := noResource(path, found.All); err != nil {
		return nil, err
	}
	resources, optional := found.Everything(len(o.selects.Namespaces) > 0), true
	if names := input.SplitArgs(args); len(names) > 0 {
		optional = false
		if resources, err = found.Named(ctx, names); err != nil {
			return nil, err
		}
	}
	w := cluster.Wanted{Namespaces: o.selects.Namespaces, Labels: o.selects.Labels, Fields: o.selects.Fields,
		Representation: entry.Unstructured}
	var all []snapshot.Listing
	for _, r := range resources {
		r = conn.Described(ctx, r)
		ids, err := w.Identities(r)
		if err != nil {
			return nil, command.Usage(err)
		}
		for _, id := range ids {
			all = append(all, conn.Listing(ctx, id, r, optional))
		}
	}
	if missing, why := found.Missing(); optional && len(missing) > 0 {
		fmt.Fprintf(s.Err, "note: the API server does not answer for %s (%s): nothing of them is saved\n",
			strings.Join(missing, ", "), why)
	}
	return all, nil
}
