package informer

import (
	"context"
	"fmt"
	"sync"

	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/store"
)

// clusterInUse is the id of the cluster that the run of a collection is connected to.
type clusterInUse struct {
	mu      sync.Mutex
	id      string        // guarded by mu; "" if it cannot be read
	known   bool          // guarded by mu; the server has answered in this run
	changed chan struct{} // guarded by mu; closed at the next change
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

// claimCluster returns the collection's ClaimCluster, which records the cluster in use; nil if there is no collection.
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

// hasOwnClient reports whether the ListerWatcher of the informer, which the run does not use, may be for another
// cluster than that of the run.
func (i *Informer) hasOwnClient() bool {
	return !i.first && i.o.ClusterID != nil && i.shared.o.ClusterID != nil
}

// follow lets the handlers join the run, and returns when ctx or the run ends. If the informer has a client of its own,
// its cluster is compared first with that of the run, and again when that changes; with SyncPolicy Disk, which serves
// stored objects without a server, the handlers join at once. If the cluster is another one, they get nothing more.
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
				return // the cluster may be unknown still
			case err != nil:
				i.part(ctx, err)
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

// part ends the handlers, because of err: the run is connected to another cluster.
func (i *Informer) part(ctx context.Context, err error) {
	i.shared.part(i)
	i.refuse(err)
	i.reportError(ctx, err)
	i.stopDurable(ctx)
	if i.hasJoined() {
		i.processor.Stop()
	}
}

// compareCluster reads the id of the cluster of the informer's own client, and returns an error if it is not theirs. It
// tries again until the server answers, or ctx ends. A cluster whose id cannot be read is taken for the same.
func (i *Informer) compareCluster(ctx context.Context, theirs string) error {
	read := attributes.Bounded("Options.ClusterID", i.o.ClusterID)
	for delay := storeBackoff(); ; {
		mine, err := read(ctx)
		switch {
		case err == nil && mine != "" && theirs != "" && mine != theirs:
			return fmt.Errorf("%w: another informer fills %s from the cluster %s, and the client of this one is for %s; each "+
				"cluster needs a store of its own", store.ErrOtherCluster, i.Identity(), theirs, mine)
		case err == nil || limiter.Final(err):
			return nil //nolint:nilerr // an id that cannot be read is taken for the same
		}
		if patient.Sleep(ctx, i.clock, delay.Step()) != nil {
			return nil //nolint:nilerr // the informer ends
		}
	}
}
