package informer

import (
	"context"
	"fmt"
	"sync"

	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

// clusterInUse holds the id of the cluster to which a collection's run is connected.
type clusterInUse struct {
	mu      sync.Mutex    // mu guards id, known and changed
	id      string        // id is "" if the cluster id cannot be read
	known   bool          // known is true once the server has answered in this run
	changed chan struct{} // changed is closed at the next change of id or known
}

func (c *clusterInUse) set(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || c.id != id {
		c.id, c.known = id, true
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func (c *clusterInUse) get() (id string, known bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id, c.known, c.changed
}

// claimCluster returns a function that claims the file for a cluster id. That function fails if another collection of
// the file is in use for another cluster. For objects in memory, claimCluster returns nil.
func (i *sharedInformer) claimCluster() func(id string, exchanged bool) error {
	if i.collection == nil {
		return nil
	}
	return func(id string, exchanged bool) error {
		err := i.collection.ClaimCluster(id, exchanged)
		if err == nil {
			i.cluster.set(id)
		}
		return err
	}
}

// hasOwnClient reports whether the informer's client may be for another cluster than the client of the first Informer.
func (i *Informer) hasOwnClient() bool {
	return !i.first && i.o.ClusterID != nil && i.shared.o.ClusterID != nil
}

// follow starts the delivery of changes to the handlers, and returns when ctx or the run ends. An informer with a
// client of its own compares that client's cluster with the run's cluster before the delivery, and at each change of
// the run's cluster. With SyncPolicy Disk, which serves stored objects without a server, the delivery starts before
// that comparison. If the clusters differ, the handlers get no further changes.
func (i *Informer) follow(ctx, run context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(delivery.ErrStopped)
	// The run ends before ctx if the store was closed, or the reflector has stopped.
	defer context.AfterFunc(run, func() { cancel(delivery.ErrStopped) })()
	own := i.hasOwnClient()
	if !own || i.o.SyncPolicy == Disk {
		i.joinHandlers(ctx)
	}
	for {
		theirs, known, changed := i.shared.cluster.get()
		if own && known {
			err := i.compareCluster(ctx, theirs)
			switch {
			case ctx.Err() != nil:
				return // compareCluster was interrupted, so the handlers must not join
			case err != nil:
				i.leaveRun(ctx, err)
				changed, own = nil, false
			default:
				i.joinHandlers(ctx)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// leaveRun stops the handlers, because the run is connected to another cluster. err names the clusters.
func (i *Informer) leaveRun(ctx context.Context, err error) {
	i.shared.removeJoined(i)
	i.refuse(err)
	i.reportError(ctx, err)
	i.stopDurable(ctx)
	if i.hasJoined() {
		i.processor.Stop()
	}
}

// compareCluster reads the cluster id with the informer's own client, and returns an error if it differs from theirs,
// the id of the run's cluster. It retries until the server answers or ctx ends. If the id cannot be read, the clusters
// count as the same.
func (i *Informer) compareCluster(ctx context.Context, theirs string) error {
	read := attributes.Bounded("Options.ClusterID", i.o.ClusterID)
	for delay := storeBackoff(); ; {
		mine, err := read(ctx)
		switch {
		case err == nil && mine != "" && theirs != "" && mine != theirs:
			return fmt.Errorf("%w: another informer fills %s from the cluster %s, and the client of this one is for %s; each "+
				"cluster needs a store of its own", store.ErrOtherCluster, i.Identity(), theirs, mine)
		case err == nil || limiter.Final(err):
			return nil //nolint:nilerr // an id that cannot be read counts as equal
		}
		if base.Sleep(ctx, i.clock, delay.Step()) != nil {
			return nil //nolint:nilerr // the informer ends
		}
	}
}
