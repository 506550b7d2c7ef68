package scenario

import (
	"context"
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
)

// prepare is no measurement: it brings the file of Larder up to what the server has.
var prepare = Scenario{
	Name: "prepare",
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		r, err := b.start(ctx, nil)
		if err != nil {
			return nil, err
		}
		_, err = r.AwaitSync(ctx)
		return finish(r, Result{}, err)
	},
}

// restart: nothing has changed, and nobody asks for a replay.
var restart = Scenario{
	Name: "restart", Title: "restart, nothing changed, no handler",
	Kinds: []string{"pods", "configmaps", "widgets"}, Stored: true,
	Metrics: []Metric{
		bytesMetric,
		{Key: "synced_disk", Title: "time to HasSynced, policy Disk", Unit: Seconds},
		{Key: "synced_resumed", Title: "time to HasSynced, policy Resumed", Unit: Seconds},
		{Key: ServerCPU, Title: "API server CPU", Unit: Seconds},
	},
	Subjects: func(kind load.Kind) []subject.Spec {
		return append(larders(subject.Spec{Policy: informer.Disk, Dynamic: kind.Example == nil}), typed(kind)...)
	},
	Run:     runRestart,
	Seconds: linear(1, 0.5),
}

func runRestart(ctx context.Context, b *Bench) (Result, error) {
	r, err := b.start(ctx, nil)
	if err != nil {
		return nil, err
	}
	took, err := r.AwaitSync(ctx)
	if err != nil {
		return finish(r, nil, err)
	}
	result := Result{}
	if !b.larder() || b.Case.Subject.Policy == informer.Disk {
		result["synced_disk"] = took.Seconds()
	}
	if b.Case.Subject.Policy != informer.Disk {
		result["synced_resumed"], result["bytes"], result[ServerCPU] = took.Seconds(), float64(r.Network.Received()), 0
	}
	return finish(r, result, b.complete(r), b.resumed(r))
}

// restartHandler is the same with an ordinary handler, which is told of every object.
var restartHandler = Scenario{
	Name: "restart-handler", Title: "restart, nothing changed, with a handler",
	Kinds: []string{"pods", "configmaps", "widgets"}, Stored: true,
	Metrics: []Metric{
		{Key: "told", Title: "time to the last OnAdd", Unit: Seconds},
		rssAnonMetric, rssFileMetric,
	},
	Subjects: typedAndDynamic,
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		w := subject.NewWitness(b.Kind, int64(b.Case.N), "", 0)
		r, err := b.start(ctx, w)
		if err != nil {
			return nil, err
		}
		if err := await(ctx, "the last OnAdd", w.Added); err != nil {
			return finish(r, nil, err)
		}
		result := Result{"told": w.AddedAt.Sub(r.Started).Seconds()}
		b.memory(result)
		return finish(r, result, r.AwaitTold(ctx), b.resumed(r))
	},
	Seconds: linear(1, 0.8),
}

// restartChanged: one object in a hundred has changed while nobody watched.
var restartChanged = Scenario{
	Name: "restart-changed", Title: "restart, 1 % changed",
	Kinds: []string{"pods"}, Stored: true,
	Metrics: []Metric{
		bytesMetric,
		{Key: "seen", Title: "time to the last change", Unit: Seconds},
	},
	Subjects: typed,
	Before:   changeOnePercent,
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		w := subject.NewWitness(b.Kind, 0, b.markerKey(), b.Case.Revision)
		r, err := b.start(ctx, w)
		if err != nil {
			return nil, err
		}
		if err := await(ctx, "the last change", w.Seen); err != nil {
			return finish(r, nil, err)
		}
		seen := time.Since(r.Started)
		if _, err := r.AwaitSync(ctx); err != nil {
			return finish(r, nil, err)
		}
		return finish(r, Result{"seen": seen.Seconds(), "bytes": float64(r.Network.Received())}, b.resumed(r))
	},
	Seconds: linear(1, 0.8),
}

// changeOnePercent changes one object in a hundred; the last one is the marker.
func changeOnePercent(ctx context.Context, h Host, c *Case) error {
	kind := load.Kinds[c.Kind]
	numbers := every(100, c.N)
	rest := len(numbers) - 1
	c.Marker, c.Revision = last(numbers), h.Revisions(1)
	h.Changed()
	if err := h.Cluster().Change(ctx, kind, numbers[:rest], c.Revision); err != nil {
		return err
	}
	return h.Cluster().Change(ctx, kind, numbers[rest:], c.Revision)
}
