package mirror

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/store"
)

// describe keeps stored, until ctx ends, what the server's definition of a custom resource says of its names and
// columns. It is read once the informer has found the server in this run. After that a change of it cannot be missed:
// kube-apiserver ends the watches of the resource and answers them with 410, so that the informer lists. Without a
// definition, or the right to read it, there is nothing to store.
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
	stored := "" // the state of the definition that is stored
	lists := -1
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
	return state, nil
}
