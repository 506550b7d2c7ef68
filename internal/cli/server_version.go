package cli

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// noted asks for the server's version, and has the store keep the answer, for snapshots.
func noted(st *store.Store, ask func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		version, err := ask(ctx)
		if err != nil {
			return version, err
		}
		if err := st.PutDocument(ctx, store.DocumentServerVersion, []byte(version)); err != nil {
			klog.FromContext(ctx).V(2).Info("The server's version is not stored", "err", err)
		}
		return version, nil
	}
}

// askVersion asks once in a run: a list does too, and where there is none the server may have been upgraded since the last.
func (mb *member) askVersion(ctx context.Context, st *store.Store) {
	select {
	case <-mb.informer.HasSyncedChecker().Done():
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if _, err := noted(st, informer.ServerVersion(mb.conn.raw))(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("The server has not told its version", "err", err)
	}
}
