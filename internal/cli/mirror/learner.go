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
	// learnEvery is the interval of requests for facts about the server: it may rotate its keys, and old ones stay
	// valid for a day or more. learnAgain is the first pause after a failure; it doubles with each.
	learnEvery, learnAgain = 6 * time.Hour, 10 * time.Minute
	// learnSpread is the time over which many mirrors spread their requests for a schema that changed for all of them.
	learnSpread = 10 * time.Minute
	// learnPatience limits how long the learner waits for the other lists after the first.
	learnPatience = 10 * time.Minute
)

// learner stores facts about the server that discovery, kubectl explain and the verification of tokens need offline. It
// starts after the first lists. Its failures do not affect the mirror.
type learner struct {
	store  *store.Store
	server *cluster.Server
	// schemas enables the schemas, by far the largest of the facts.
	schemas bool

	every, again, spread, patience time.Duration
	// unstored has the hashes of schemas that cannot be stored; only run uses it.
	unstored map[schema.GroupVersion]string

	mu sync.Mutex
	// hashes holds the server's last hashes; guarded by mu.
	hashes map[schema.GroupVersion]string
	// changed holds a token if a hash has changed.
	changed chan struct{}
}

func newLearner(st *store.Store, server *cluster.Server, schemas bool) *learner {
	return &learner{store: st, server: server, schemas: schemas, every: learnEvery, again: learnAgain, spread: learnSpread,
		patience: learnPatience, unstored: map[schema.GroupVersion]string{}, hashes: map[schema.GroupVersion]string{},
		changed: make(chan struct{}, 1)}
}

// hash returns a function for Options.OpenAPIHash. The informers share its requests.
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

// noteHash records a hash, and signals changed if it differs from the previous one.
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
	default: // a token is there already
	}
}

// run learns until ctx ends: about the group versions of the members and of the stored collections.
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

// waitFor waits until all are listed, or until the patience has passed since the first. It returns false if ctx has
// ended.
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

// learn stores the facts that have changed.
func (l *learner) learn(ctx context.Context, of []schema.GroupVersion) error {
	infos, err := l.store.Collections(ctx)
	if err != nil {
		return err
	}
	ask := facts.Ask{Client: l.server.Raw, Of: slices.Clone(of), Schemas: l.schemas, Unstored: l.unstored,
		Hash: func(ctx context.Context, gv schema.GroupVersion) (string, error) {
			return l.server.Schemas.Hash(gv)(ctx)
		}}
	ask.Cluster, _ = l.server.ClusterID(ctx) // empty if it is forbidden
	for _, info := range infos {
		if gv := info.Identity.GroupVersion(); !slices.Contains(ask.Of, gv) {
			ask.Of = append(ask.Of, gv)
		}
	}
	return facts.Refresh(ctx, l.store, ask)
}
