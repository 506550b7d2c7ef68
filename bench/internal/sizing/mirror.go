package sizing

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/larder"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/internal/source"
)

const atMost = 10 * time.Minute

type mirror struct {
	*larder.Process
	store string
	begun time.Time

	done     chan struct{}
	sampling sync.WaitGroup
	mu       sync.Mutex
	anon     int64 // peak of RssAnon; mu guards anon
}

func startMirror(access cluster.Access, kind load.Kind, store string) (*mirror, error) {
	m := &mirror{store: store, begun: time.Now(), done: make(chan struct{})}
	var err error
	if m.Process, err = larder.StartSync(access, store, kind.GVR.Resource); err != nil {
		return nil, err
	}
	m.sampling.Go(func() {
		for ticker := time.NewTicker(10 * time.Millisecond); ; {
			m.peak()
			select {
			case <-ticker.C:
			case <-m.done:
				ticker.Stop()
				return
			}
		}
	})
	return m, nil
}

// peak returns the highest RssAnon of the larder process so far, including the current value.
func (m *mirror) peak() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, err := proc.Anon(m.PID()); err == nil { // an error means that the process has ended
		m.anon = max(m.anon, now)
	}
	return m.anon
}

// live waits until the mirror is synced with the server and has this number of objects.
func (m *mirror) live(ctx context.Context, objects int) (took, error) {
	err := m.await(ctx, func(c source.Collection) bool {
		return c.Live.Synced && c.Live.Source == "live" && c.Objects >= objects
	})
	return took{time.Since(m.begun), m.peak()}, err
}

func (m *mirror) reaches(ctx context.Context, rv uint64) error {
	return m.await(ctx, func(c source.Collection) bool {
		at, _ := strconv.ParseUint(c.ResourceVersion, 10, 64)
		return at >= rv
	})
}

func (m *mirror) await(ctx context.Context, holds func(source.Collection) bool) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for ctx.Err() == nil && !m.Ended() {
		if c, ok := larder.Collection(ctx, m.store); ok && holds(c) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.Join(ctx.Err(), errors.New("larder sync has not come as far as it should"))
}

func (m *mirror) stop() error {
	err := m.Stop()
	close(m.done)
	m.sampling.Wait()
	return err
}
