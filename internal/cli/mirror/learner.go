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
	// learnEvery is how often the server is asked what it says of itself: its keys may be replaced, and old ones go on to
	// be valid for a day or more. learnAgain is how soon it is asked after a failure, twice as late after each.
	learnEvery, learnAgain = 6 * time.Hour, 10 * time.Minute
	// learnSpread is the time over which many mirrors read a schema that has changed for all of them.
	learnSpread = 10 * time.Minute
	// learnPatience is how long the lists of the others are waited for after the first one.
	learnPatience = 10 * time.Minute
)

// learner has the store keep what the server says of itself: for discovery, kubectl explain and tokens, without the
// server. It begins when everything has been listed. Nothing fails because of it.
type learner struct {
	store  *store.Store
	server *cluster.Server
	// schemas are kept, too. They are the larger part by far.
	schemas bool

	every, again, spread, patience time.Duration
	// unstored are schemas that cannot be stored; run's.
	unstored map[schema.GroupVersion]string

	mu sync.Mutex
	// heard are the server's last hashes; guarded by mu.
	heard map[schema.GroupVersion]string
	// changed holds a token if one of them is another than before.
	changed chan struct{}
}

func newLearner(st *store.Store, server *cluster.Server, schemas bool) *learner {
	return &learner{store: st, server: server, schemas: schemas, every: learnEvery, again: learnAgain, spread: learnSpread,
		patience: learnPatience, unstored: map[schema.GroupVersion]string{}, heard: map[schema.GroupVersion]string{},
		changed: make(chan struct{}, 1)}
}

// hash returns a function for Options.OpenAPIHash. All informers share what it reads.
func (l *learner) hash(gv schema.GroupVersion) func(ctx context.Context) (string, error) {
	read := l.server.Schemas.Hash(gv)
	return func(ctx context.Context) (string, error) {
		hash, err := read(ctx)
		if err == nil {
			l.hear(gv, hash)
		}
		return hash, err
	}
}

// hear notes a hash.
func (l *learner) hear(gv schema.GroupVersion, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.heard[gv]
	l.heard[gv] = hash
	if !l.schemas || !known || before == hash {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default: // changed has a token already
	}
}

// run learns until ctx ends: of the members' group-versions, and of all that the store has.
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

// waitFor waits until all are listed, or the patience is over since the first one was. It returns false if ctx has
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

// learn stores what has changed.
func (l *learner) learn(ctx context.Context, of []schema.GroupVersion) error {
	infos, err := l.store.Collections(ctx)
	if err != nil {
		return err
	}
	ask := facts.Ask{Client: l.server.Raw, Of: slices.Clone(of), Schemas: l.schemas, Unstored: l.unstored,
		Hash: func(ctx context.Context, gv schema.GroupVersion) (string, error) {
			return l.server.Schemas.Hash(gv)(ctx)
		}}
	ask.Cluster, _ = l.server.ClusterID(ctx) // which is unknown if it may not be read
	for _, info := range infos {
		if gv := info.Identity.GroupVersion(); !slices.Contains(ask.Of, gv) {
			ask.Of = append(ask.Of, gv)
		}
	}
	return facts.Refresh(ctx, l.store, ask)
}
