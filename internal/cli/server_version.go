package cli

import (
	"context"
	"encoding/json"
	"fmt"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/store"
)

// serverVersion reads the gitVersion of the server's /version, which everybody may read by default.
func serverVersion(ctx context.Context, client rest.Interface) (string, error) {
	data, err := client.Get().AbsPath("/version").Do(ctx).Raw()
	var info apiversion.Info
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return "", fmt.Errorf("read the server's version: %w", err)
	}
	return info.GitVersion, nil
}

// noteVersion has the store keep the server's version, for snapshots. It asks once in a run: an upgraded API server
// ends its watches, but not this program.
func (mb *member) noteVersion(ctx context.Context, st *store.Store) {
	select {
	case <-mb.informer.HasSyncedChecker().Done():
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	v, err := serverVersion(ctx, mb.conn.raw)
	if err == nil {
		err = st.PutDocument(ctx, store.DocumentServerVersion, []byte(v))
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The server's version is not stored", "err", err)
	}
}
