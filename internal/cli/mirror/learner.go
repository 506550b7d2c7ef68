package mirror

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/store"
)

const (
	// learnEvery is the interval at which a sync requests facts about the server, such as its signing keys. The server may
	// rotate the keys while old keys stay valid for a day or more. learnAgain is the first pause after a failed request;
	// it doubles with each failure.
	learnEvery, learnAgain = 6 * time.Hour, 10 * time.Minute
	// learnSpread is the time over which many mirrors of one server spread their requests when a schema has changed.
	learnSpread = 10 * time.Minute
	// learnPatience limits how long the learner waits for all first lists, once the list of any collection is complete.
	learnPatience = 10 * time.Minute
)

// learner stores facts about the server (version, discovery, schemas, keys), so that discovery, kubectl explain and the
// verification of tokens work offline. It starts after the first lists. Its failures do not affect the mirror.
type learner struct {
	store  *store.Store
	server *cluster.Server
	// schemas enables storing OpenAPI schemas, by far the largest of the facts about a server.
	schemas bool

	every, again, spread, patience time.Duration
	// unstored holds the hashes of schemas that could not be stored and are not requested again. Only run uses it.
	unstored map[schema.GroupVersion]string

	mu sync.Mutex
	// hashes holds the hash that the server last reported for each schema; mu guards it.
	hashes map[schema.GroupVersion]string
	// changed is a channel with capacity 1. It holds a value if a schema's hash has changed since run last received.
	changed chan struct{}
}

func newLearner(st *store.Store, server *cluster.Server, schemas bool) *learner {
	return &learner{store: st, server: server, schemas: schemas, every: learnEvery, again: learnAgain, spread: learnSpread,
		patience: learnPatience, unstored: map[schema.GroupVersion]string{}, hashes: map[schema.GroupVersion]string{},
		changed: make(chan struct{}, 1)}
}

// hash returns the function by which an informer reads the hash of the group version's schema (Options.OpenAPIHash).
// The informers share the requests.
func (l *learner) hash(gv schema.GroupVersion) func(ctx context.Context) (string, error) {
	read := l.server.Schemas.Hash(gv)
	return func(ctx context.Context) (string, error) {
		hash, err := read(ctx)
		if err == nil {
			l.noteHash(gv, hash)
		}
		return hash, err
	}
}

// noteHash stores the hash of a group version's schema in the map hashes, and signals on changed if the hash has
// changed.
func (l *learner) noteHash(gv schema.GroupVersion, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.hashes[gv]
	l.hashes[gv] = hash
	if !l.schemas || !known || before == hash {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default: // the channel changed already holds a signal
	}
}

// run stores facts about the server until ctx ends. It requests the schemas of the group versions of mirrored and of
// all stored collections.
func (l *learner) run(ctx context.Context, members []*member) {
	defer l.server.Close()
	var of []schema.GroupVersion
	var listed []<-chan struct{}
	for _, mb := range members {
		if gv := mb.identity.GroupVersion(); !slices.Contains(of, gv) {
			of = append(of, gv)
		}
		listed = append(listed, mb.informer.HasSyncedChecker().Done())
	}
	if !l.waitFor(ctx, listed) {
		return
	}
	again := l.again
	for {
		next := l.every
		if err := l.learn(ctx, of); err == nil {
			again = l.again
		} else {
			next, again = min(again, l.every), 2*again
			klog.FromContext(ctx).V(2).Info("Not all that the server says of itself is stored", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
			continue
		case <-l.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(l.spread)):
		}
	}
}

// waitFor waits until all first lists are complete, or until learnPatience has passed since the first complete list. It
// returns false if ctx has ended.
func (l *learner) waitFor(ctx context.Context, listed []<-chan struct{}) bool {
	var wg sync.WaitGroup
	defer wg.Wait()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	for _, one := range listed {
		wg.Go(func() {
			select {
			case <-one:
			case <-waiting.Done():
				return
			}
			select {
			case done <- struct{}{}:
			case <-waiting.Done():
			}
		})
	}
	var over <-chan time.Time
	for range listed {
		select {
		case <-done:
			if over == nil {
				over = time.After(l.patience)
			}
		case <-over:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// learn requests the facts about the server and stores changed facts. of has the group versions whose schemas it
// requests.
func (l *learner) learn(ctx context.Context, of []schema.GroupVersion) error {
	infos, err := l.store.Collections(ctx)
	if err != nil {
		return err
	}
	ask := facts.Ask{Client: l.server.Raw, Of: slices.Clone(of), Schemas: l.schemas, Unstored: l.unstored,
		Hash: func(ctx context.Context, gv schema.GroupVersion) (string, error) {
			return l.server.Schemas.Hash(gv)(ctx)
		}}
	// The cluster's id is empty if the user may not read the kube-system namespace, from which it is derived.
	ask.Cluster, _ = l.server.ClusterID(ctx)
	for _, info := range infos {
		if gv := info.Identity.GroupVersion(); !slices.Contains(ask.Of, gv) {
			ask.Of = append(ask.Of, gv)
		}
	}
	return facts.Refresh(ctx, l.store, ask)
}

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
