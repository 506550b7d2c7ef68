package source

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A sync is silent after so many ticks without a frame: half a minute, in which it would have said three times that it
// is there. Ticks, since they do not add up while this process is stopped.
const (
	pulseEvery = 5 * time.Second
	pulseTicks = 6
)

// Watch implements Watcher.
func (c *Client) Watch(ctx context.Context, q WatchQuery, fn func(Event) error) error {
	if err := q.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pulse{}
	var wg sync.WaitGroup
	wg.Go(func() { p.watch(ctx, c.pulseEvery, cancel) })
	defer wg.Wait()
	defer cancel(nil)
	in, err := c.stream(ctx, http.MethodGet, pathWatch+"?"+q.values().Encode(), nil)
	if err != nil {
		return causeOr(ctx, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	for {
		f, err := in.next()
		if err != nil {
			return causeOr(ctx, err)
		}
		p.heard()
		if f.Event == nil {
			continue
		}
		p.busy.Store(true) // fn may take its time
		if err = fn(*f.Event); err != nil {
			return err
		}
		p.busy.Store(false)
		p.heard()
	}
}

// causeOr is why ctx has ended, or err if it has not.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pulse notices that nothing comes any more.
type pulse struct {
	silent atomic.Int32
	busy   atomic.Bool
}

func (p *pulse) heard() { p.silent.Store(0) }

// watch ends the watch when the sync is silent, until ctx ends.
func (p *pulse) watch(ctx context.Context, every time.Duration, end context.CancelCauseFunc) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !p.busy.Load() && p.silent.Add(1) >= pulseTicks {
				end(ErrSilent)
			}
		}
	}
}
