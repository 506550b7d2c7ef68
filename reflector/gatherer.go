package reflector

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
)

// gatherer reads a watch up to the end of its initial events, on a goroutine of its own, so that the next page's are
// decoded while the sink takes the last page. It holds one page at most.
type gatherer struct {
	// batches are pages of events; the last one ends with the end of the initial events, or with an ERROR. Closed after
	// it.
	batches chan []watch.Event
	// beats holds a token when events have come.
	beats  chan struct{}
	cancel context.CancelFunc
}

// gather begins to read; close must follow. After the last batch it reads no more.
func gather(ctx context.Context, events <-chan watch.Event, size int) *gatherer {
	g := &gatherer{batches: make(chan []watch.Event), beats: make(chan struct{}, 1)}
	ctx, g.cancel = context.WithCancel(ctx)
	go g.run(ctx, events, size)
	return g
}

func (g *gatherer) run(ctx context.Context, events <-chan watch.Event, size int) {
	defer close(g.batches)
	for last := false; !last; {
		var batch []watch.Event
		batch, last = g.fill(ctx, events, size)
		if len(batch) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case g.batches <- batch:
		}
	}
}

// fill returns the next batch, and whether it is the last.
func (g *gatherer) fill(ctx context.Context, events <-chan watch.Event, size int) (batch []watch.Event, last bool) {
	for len(batch) < size {
		select {
		case <-ctx.Done():
			return nil, true
		case ev, ok := <-events:
			if !ok {
				return batch, true
			}
			select {
			case g.beats <- struct{}{}:
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

// close ends the reading and waits for it.
func (g *gatherer) close() {
	g.cancel()
	for range g.batches {
	}
}
