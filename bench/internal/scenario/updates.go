package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/codec"
)

// hotRounds is how often each hot object is changed.
const hotRounds = 10

// SecondAndCommit is what the time to the disk is compared with: an interval of commits, and a commit.
const SecondAndCommit = "a second and the commit"

// commitInterval is the default of store.Options.
const commitInterval = time.Second

var (
	// rateMetric counts calls of the handler, and toldMetric says how many of the updates that were.
	rateMetric    = Metric{Key: "rate", Title: "rate", Unit: PerSecond}
	toldMetric    = Metric{Key: "told", Title: "calls of the handler", Unit: Count, Against: "updates made"}
	durableMetric = Metric{Key: "durable", Title: "the last update, from handler to disk", Unit: Seconds, Against: SecondAndCommit}
)

// updatesHot: one object in ten is changed again and again.
var updatesHot = Scenario{
	Name: "updates-hot", Title: "updates of hot keys, one handler",
	Kinds: []string{"pods"}, Embedded: true, Stored: true,
	Metrics:  []Metric{rateMetric, toldMetric, durableMetric},
	Subjects: updated,
	Before: func(_ context.Context, h Host, c *Case) error {
		// The changes are made in order, so the last one is the last.
		c.Marker, c.Revision = last(every(10, c.N)), h.Revisions(hotRounds)+hotRounds-1
		h.Changed()
		return nil
	},
	Drive: func(ctx context.Context, h Host, c *Case, proceed func() error) error {
		kind, numbers := load.Kinds[c.Kind], every(10, c.N)
		for round := range hotRounds {
			if err := h.Cluster().Change(ctx, kind, numbers, c.Revision-hotRounds+1+round); err != nil {
				return err
			}
		}
		return proceed()
	},
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		return runUpdates(ctx, b, hotRounds*len(every(10, b.Case.N)))
	},
	Seconds: linear(2, 1.5),
}

// updatesSpread: every object is changed once, in no order, which is the worst for a tree on disk.
var updatesSpread = Scenario{
	Name: "updates-spread", Title: "updates of every key once, one handler",
	Kinds: []string{"pods"}, Embedded: true, Stored: true,
	Metrics: []Metric{rateMetric, toldMetric, durableMetric, {Key: "rate", Title: "rate", Unit: PerSecond, Against: "raw bbolt, 4 MiB a transaction"}},
	Subjects: func(kind load.Kind) []subject.Spec {
		return append(updated(kind), subject.Spec{Library: subject.Raw})
	},
	Before: func(_ context.Context, h Host, c *Case) error {
		c.Marker, c.Revision = last(shuffled(c.N)), h.Revisions(1)
		h.Changed()
		return nil
	},
	Drive: func(ctx context.Context, h Host, c *Case, proceed func() error) error {
		if err := h.Cluster().Change(ctx, load.Kinds[c.Kind], shuffled(c.N), c.Revision); err != nil {
			return err
		}
		return proceed()
	},
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		if b.Case.Subject.Library == subject.Raw {
			return rawWrites(ctx, b)
		}
		return runUpdates(ctx, b, b.Case.N)
	},
	Seconds: linear(2, 1.5),
}

// updated are the informers whose pipeline is measured.
func updated(load.Kind) []subject.Spec {
	return append(larders(subject.Spec{}), subject.Spec{Library: subject.ClientGo})
}

// runUpdates holds the network until the driver has made the changes, so that the pipeline is never waiting for the
// server: what is measured is how fast it can go.
func runUpdates(ctx context.Context, b *Bench, count int) (Result, error) {
	w := subject.NewWitness(b.Kind, 0, b.markerKey(), b.Case.Revision)
	r, err := b.start(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := r.AwaitTold(ctx); err != nil {
		return finish(r, nil, err)
	}
	before := tallyOf(r, w)
	r.Network.Hold()
	if err := b.Ready(ctx); err != nil {
		return finish(r, nil, err)
	}
	start := time.Now()
	r.Network.Release()
	if err := await(ctx, "the last update", w.Seen); err != nil {
		return finish(r, nil, err)
	}
	seconds := time.Since(start).Seconds()
	updates := tallyOf(r, w).since(before)
	result := updates.rate(seconds)
	return finish(r, result, updates.check(count), b.durable(ctx, r, result), b.resumed(r))
}

// durable adds how long it takes until the marker, which the handler has just been told of, is in the file.
func (b *Bench) durable(ctx context.Context, r *subject.Running, result Result) error {
	if !b.larder() {
		return nil
	}
	told := time.Now()
	commit, err := r.AwaitCommit(ctx)
	if err != nil {
		return err
	}
	result["durable"], result["durable"+Reference] = time.Since(told).Seconds(), (commitInterval + commit).Seconds()
	codec, err := codec.For(b.Kind.Example)
	if err != nil {
		return err
	}
	view, err := r.Store.ViewWith(ctx, r.Larder.Identity(), codec)
	if err != nil {
		return err
	}
	obj, err := view.Get(ctx, b.markerKey())
	if revision, _ := load.Revision(obj); err == nil && revision < b.Case.Revision {
		err = fmt.Errorf("nothing is pending, and the file has revision %d of %s, want %d", revision, b.markerKey(), b.Case.Revision)
	}
	return err
}
