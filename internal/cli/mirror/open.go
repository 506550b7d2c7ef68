package mirror

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/access/listener"
	"github.com/larder-dev/larder/store"
)

const lockWait = 10 * time.Second

// openMirror opens the store and creates an informer for each resource. It creates a missing store file as its last
// step, so that a sync that cannot start leaves no file behind.
func openMirror(
	ctx context.Context, pl planner, set settings, mo memberOptions, logger logr.Logger,
) (_ *mirror, err error) {
	options := set.storeOptions()
	options.Logger = &logger
	var st *store.Store
	var infos []entry.Info
	var known *facts.Discovery
	defer func() {
		if err != nil && st != nil {
			err = errors.Join(err, st.Close())
		}
	}()
	if !input.Missing(set.store) {
		if st, err = openForSync(ctx, set.store, lockWait, options); err != nil {
			return nil, err
		}
		if infos, err = st.Collections(ctx); err != nil {
			return nil, err
		}
		if known, err = facts.ReadDiscovery(ctx, st); err != nil {
			// The sync requests discovery again if the stored discovery is unreadable.
			logger.V(2).Info("What the server said of its resources cannot be read", "err", err)
		}
	}
	server, err := cluster.NewServer(multiplexed(pl.config, set.wanted))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			server.Close()
		}
	}()
	plan, offers, err := pl.plan(ctx, server, infos, known, set.wanted)
	if err == nil {
		err = errors.Join(checkSeals(set.seals, plan), checkServed(plan, set, mo))
	}
	if err != nil {
		return nil, err
	}
	if st == nil {
		if st, err = openForSync(ctx, set.store, lockWait, options); err != nil {
			return nil, err
		}
	}
	keepDiscovery(klog.NewContext(ctx, logger), st, known, offers)
	m := newMirror(st)
	m.learner = newLearner(st, server, mo.schemas)
	mo.learner = m.learner
	m.follower = &follower{server: server, storePath: pl.storePath, wanted: set.wanted, options: mo, offers: offers}
	for _, p := range plan {
		mb, err := newMember(klog.NewContext(ctx, logger), st, p, mo)
		if err != nil {
			return nil, err
		}
		m.members = append(m.members, mb)
	}
	return m, nil
}

// keepDiscovery stores the server's discovery if it has changed, so that a sync resolves names offline to the same
// resources.
func keepDiscovery(ctx context.Context, st *store.Store, known *facts.Discovery, offers *cluster.Offers) {
	if offers == nil || offers.Discovery == nil {
		return
	}
	now := offers.Discovery
	if known != nil && known.Equal(*now) && slices.Equal(known.Unavailable, now.Unavailable) &&
		maps.Equal(known.ETags, now.ETags) {
		return
	}
	if err := now.Put(ctx, st); err != nil {
		// An error such as a full disk is only logged, because the informers can run without stored discovery.
		klog.FromContext(ctx).Info("What the server said of its resources is not stored", "err", err)
	}
}

func newMirror(st *store.Store) *mirror {
	return &mirror{File: source.NewFile(st), store: st, note: func(string) {}}
}

// openForSync opens the store file for writing. It waits for a lock of a reader, or of a program that may be stopping.
// If another sync has locked the file, it fails at once.
func openForSync(ctx context.Context, path string, wait time.Duration, options store.Options) (*store.Store, error) {
	st, err := store.OpenContext(ctx, path, options)
	if !errors.Is(err, store.ErrLocked) {
		return st, input.PathError(path, err)
	}
	client, who, dialErr := source.Dial(ctx, path)
	switch {
	case errors.Is(dialErr, source.ErrOtherVersion):
		return nil, command.WithHint(dialErr, "stop it, or mirror into another file")
	case dialErr == nil:
		_ = client.Close()
		return nil, command.WithHint(command.Reworded(err, "process %d, another larder sync, holds %s", who.PID, path),
			"stop it, or mirror into another file")
	}
	held := input.Holding(path)
	options.Logger.Info("Waiting for "+held, "store", path, "atMost", wait)
	options.LockTimeout = wait
	st, err = store.OpenContext(ctx, path, options)
	if errors.Is(err, store.ErrLocked) && ctx.Err() == nil {
		return nil, command.WithHint(command.Reworded(err, "%s is held by %s", path, input.Holding(path)),
			"wait until it is done or stop it, or mirror into another file")
	}
	return st, input.PathError(path, err)
}

// fewCollections is the largest number of collections for which each watch gets a network connection of its own, if the
// server is itself a larder mirror. A larder mirror prefers HTTP/1.1, with which an event costs it half the CPU time.
const fewCollections = 8

// multiplexed returns the client configuration for the requested resources. For more than fewCollections, it asks a
// server that is itself a larder mirror for HTTP/2, so that watches share a network connection.
func multiplexed(config *rest.Config, all []cluster.Wanted) *rest.Config {
	n := 0
	for _, w := range all {
		if w.Everything {
			n += fewCollections
		}
		n += max(1, len(w.Namespaces))
	}
	if n <= fewCollections {
		return config
	}
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"h2", "http/1.1", listener.Multiplex}
	return config
}
