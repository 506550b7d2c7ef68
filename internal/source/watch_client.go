package source

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A sync is silent after so many ticks without a line: half a minute, in which it would have said three times that it
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
	body, err := c.do(ctx, http.MethodGet, pathWatch+"?"+q.values().Encode())
	if err != nil {
		return causeOr(ctx, err)
	}
	defer body.Close()
	dec := json.NewDecoder(bufio.NewReaderSize(body, 1<<16))
	for {
		var l watchLine
		if err := dec.Decode(&l); err != nil {
			return causeOr(ctx, broken(ctx, err))
		}
		p.heard()
		switch {
		case l.Error != nil:
			return remoteError(http.StatusInternalServerError, *l.Error)
		case l.Event == nil:
			continue
		}
		e, err := l.Event.event()
		if err != nil {
			return err
		}
		p.busy.Store(true) // fn may take its time
		if err = fn(e); err != nil {
			return err
		}
		p.busy.Store(false)
		p.heard()
	}
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
