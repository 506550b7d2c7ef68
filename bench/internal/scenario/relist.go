package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/reflector"
)

// relist: an informer that runs loses its connection; meanwhile one object in a hundred changes and the server restarts, so that it
// answers the watch with 410.
var relist = Scenario{
	Name: "relist", Title: "relist after 410, 1 % changed",
	Kinds: []string{"pods"}, Stored: true,
	Metrics: []Metric{
		bytesMetric, rssAnonMetric, rssFileMetric,
		{Key: "written", Title: "bytes written to disk", Unit: Bytes, Against: "the file's size"},
		{Key: "io", Title: "bytes written to disk, by the kernel's account", Unit: Bytes, Against: "the file's size"},
	},
	Subjects: typed,
	Before: func(_ context.Context, h Host, c *Case) error {
		c.Marker, c.Revision = c.N-1, h.Revisions(1)
		h.Changed()
		return nil
	},
	Drive: func(ctx context.Context, h Host, c *Case, proceed func() error) error {
		marker := c.Revision
		if err := changeOnePercent(ctx, h, c); err != nil {
			return err
		}
		if err := h.Cluster().Change(ctx, load.Kinds[c.Kind], []int{c.N - 1}, marker); err != nil {
			return err
		}
		if err := h.Cluster().LoseHistory(ctx); err != nil {
			return err
		}
		return proceed()
	},
	Run:     runRelist,
	Seconds: linear(8, 2),
}

func runRelist(ctx context.Context, b *Bench) (Result, error) {
	w := subject.NewWitness(b.Kind, 0, b.markerKey(), b.Case.Revision)
	r, err := b.start(ctx, w)
	if err != nil {
		return nil, err
	}
	if _, err := r.AwaitSync(ctx); err != nil {
		return finish(r, nil, err)
	}
	if err := r.AwaitTold(ctx); err != nil {
		return finish(r, nil, err)
	}
	r.Network.Cut()
	if err := b.Ready(ctx); err != nil {
		return finish(r, nil, err)
	}
	received := r.Network.Received()
	var before written
	if r.Store != nil {
		if before, err = countWritten(r.Store); err != nil {
			return finish(r, nil, err)
		}
	}
	r.Network.Mend()
	if err := await(ctx, "the change that a list tells", w.Seen); err != nil {
		return finish(r, nil, err)
	}
	result := Result{"bytes": float64(r.Network.Received() - received)}
	b.memory(result)
	if r.Larder == nil {
		return finish(r, result)
	}
	if relists := r.Larder.Status().Reflector.Relists; relists[reflector.ReasonExpired] != 1 {
		err = fmt.Errorf("larder has not listed because of a 410: %v", relists)
	}
	size, _, sizeErr := r.Store.Size()
	// Stop writes what is pending: it belongs to the list.
	_, stopErr := finish(r, nil)
	result["written"+Reference], result["io"+Reference] = float64(size), float64(size)
	return result, errors.Join(err, sizeErr, stopErr, before.add(result, "", 1))
}
