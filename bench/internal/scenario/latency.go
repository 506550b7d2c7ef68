package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/stat"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// eventsPerSecond of the latencies.
const eventsPerSecond = 1000

// latency: from the moment of an update at the server to the handler.
var latency = Scenario{
	Name: "latency", Title: "event to handler, 1,000 events/s",
	Kinds: []string{"pods"}, Embedded: true, Stored: true,
	Metrics: []Metric{
		{Key: "p50", Title: "p50", Unit: Microseconds},
		{Key: "p99", Title: "p99", Unit: Microseconds},
	},
	Subjects: updated,
	Before: func(_ context.Context, h Host, c *Case) error {
		c.Marker, c.Revision = last(paced(*c)), h.Revisions(1)
		h.Changed()
		return nil
	},
	Drive: func(ctx context.Context, h Host, c *Case, proceed func() error) error {
		if err := proceed(); err != nil {
			return err
		}
		return pace(ctx, h, c, paced(*c), eventsPerSecond)
	},
	Run:     runLatency,
	Seconds: func(c Case) float64 { return linear(1.5, 0.7)(c) + 10*c.Effort },
}

func runLatency(ctx context.Context, b *Bench) (Result, error) {
	var took []float64
	w := subject.NewWitness(b.Kind, 0, b.markerKey(), b.Case.Revision)
	w.OnUpdated = func(obj any) {
		if revision, made := load.Revision(obj); revision == b.Case.Revision {
			took = append(took, float64(time.Now().UnixNano()-made)/1e3)
		}
	}
	r, err := b.start(ctx, w)
	if err != nil {
		return nil, err
	}
	if err = r.AwaitTold(ctx); err == nil {
		err = b.Ready(ctx)
	}
	if err == nil {
		err = await(ctx, "the last update", w.Seen)
	}
	if _, err = finish(r, nil, err, b.resumed(r)); err != nil {
		return nil, err
	}
	// The handlers have ended with the run.
	return quantiles(took, len(paced(b.Case)))
}

// quantiles returns the figures of latencies, of which there has to be one for each update.
func quantiles(took []float64, made int) (Result, error) {
	if len(took) != made {
		return nil, fmt.Errorf("%d updates were made, but the handler was told of %d", made, len(took))
	}
	slices.Sort(took)
	return Result{"p50": stat.Quantile(took, 0.5), "p99": stat.Quantile(took, 0.99)}, nil
}

// paced are the objects to be changed, each once at most, for ten seconds.
func paced(c Case) []int {
	all := shuffled(c.N)
	return all[:min(len(all), max(int(10*c.Effort*eventsPerSecond), 1))]
}

// pace changes the objects at that rate, and catches up where it falls behind.
func pace(ctx context.Context, h Host, c *Case, numbers []int, rate float64) error {
	kind, start := load.Kinds[c.Kind], time.Now()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for done := 0; done < len(numbers); {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		due := min(int(time.Since(start).Seconds()*rate), len(numbers))
		if err := h.Cluster().Change(ctx, kind, numbers[done:due], c.Revision); err != nil {
			return err
		}
		done = due
	}
	return nil
}
