package request

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
)

// Gathered reads a watch up to the end of its initial events, on a goroutine of its own, so that the next page is
// decoded while the sink stores the last one. It holds one page at most.
type Gathered struct {
	// Batches receives pages of events. The last page ends with a bookmark or an ERROR event; then Batches is closed.
	Batches chan []watch.Event
	// Beats holds a token if an event has come since it was last read.
	Beats  chan struct{}
	cancel context.CancelFunc
}

// Gather starts to read events in pages of size; Close must follow. It stops after the last page.
func Gather(ctx context.Context, events <-chan watch.Event, size int) *Gathered {
	g := &Gathered{Batches: make(chan []watch.Event), Beats: make(chan struct{}, 1)}
	ctx, g.cancel = context.WithCancel(ctx)
	go g.run(ctx, events, size)
	return g
}

func (g *Gathered) run(ctx context.Context, events <-chan watch.Event, size int) {
	defer close(g.Batches)
	for last := false; !last; {
		var batch []watch.Event
		batch, last = g.fill(ctx, events, size)
		if len(batch) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case g.Batches <- batch:
		}
	}
}

// fill returns the next batch, and whether it is the last.
func (g *Gathered) fill(ctx context.Context, events <-chan watch.Event, size int) (batch []watch.Event, last bool) {
	for len(batch) < size {
		select {
		case <-ctx.Done():
			return nil, true
		case ev, ok := <-events:
			if !ok {
				return batch, true
			}
			select {
			case g.Beats <- struct{}{}:
			default:
			}
			batch = append(batch, ev)
			if ev.Type == watch.Error || ev.Type == watch.Bookmark {
				return batch, true
			}
		}
	}
	return batch, false
}

// Close stops the goroutine and waits for it.
func (g *Gathered) Close() {
	g.cancel()
	for range g.Batches {
	}
}
