package mirror

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/store"
)

// describe keeps the stored names and columns of a custom resource up to date with its CustomResourceDefinition, until
// ctx ends. It reads the definition after each list. That misses no change: when a definition changes, kube-apiserver
// ends the watches of the resource and answers them with 410, which forces a list. Without a definition, or without
// permission to read it, it stores nothing.
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
	// stored is the state of the stored definition. lists is the informer's number of lists when the definition was last
	// read.
	stored, lists := "", -1
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

// describeNow reads the definition and stores its names and columns if the definition's state differs from the stored
// state. It returns the state that is stored afterwards.
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
