package mirror

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/store"
)

// describe keeps stored, until ctx ends, the names and columns of a custom resource, from its definition at the server.
// It is read when the informer has listed: a change cannot be missed, since kube-apiserver then ends the watches of the
// resource and answers them with 410. If there is no definition, or no right to read it, nothing is stored.
func (mb *member) describe(ctx context.Context, st *store.Store) {
	if !cluster.IsCustom(mb.resource.GroupVersionResource) {
		return
	}
	select {
	case <-mb.informer.HasSyncedChecker().Done():
	case <-ctx.Done():
		return
	}
	if !mb.informer.Status().Persistent {
		return
	}
	stored, lists := "", -1 // the state of the definition that is stored, and the lists when it was read
	if info, err := mb.informer.Reader().Info(ctx); err == nil && info.Resource.Definition != "" {
		stored, lists = info.Resource.Definition, 0
	}
	for {
		if now := mb.informer.Status().Reflector.Lists; now != lists {
			state, err := mb.describeNow(ctx, st, stored)
			if err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("No columns of its definition are stored", "resource", mb.resource.String(), "err",
					err)
			}
			stored, lists = state, now
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

// describeNow stores what the definition says if its state is another one than stored. It returns the state that is
// stored then.
func (mb *member) describeNow(ctx context.Context, st *store.Store, stored string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, cluster.DefinitionWait)
	defer cancel()
	gvr := mb.resource.GroupVersionResource
	state, err := mb.conn.DefinitionState(limited, gvr)
	if err != nil || state == stored {
		return stored, err
	}
	info, err := mb.conn.Define(limited, gvr)
	if err == nil {
		err = st.Describe(limited, mb.identity, info)
	}
	if err != nil {
		return stored, err
	}
	return info.Definition, nil
}
