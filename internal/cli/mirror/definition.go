package mirror

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/store"
)

// describe stores what the server's definition of a custom resource says of its names and columns, once the informer
// has found the server in this run. Without a definition, or the right to read it, there is nothing to store.
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
	limited, cancel := context.WithTimeout(ctx, cluster.DefinitionWait)
	defer cancel()
	info, err := mb.conn.Define(limited, mb.resource.GroupVersionResource)
	if err == nil {
		err = st.Describe(limited, mb.identity, info)
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("No columns of its definition are stored", "resource", mb.resource.String(), "err",
			err)
	}
}
