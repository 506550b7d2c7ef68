package attributes

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/reflector"
)

// delayed plans one call at a time of the function ask, with a reason, after a delay.
type delayed struct {
	clock clock.WithTicker
	ask   func(reflector.Reason)

	mu    sync.Mutex
	timer clock.Timer    // timer is nil while no call is planned; mu guards timer and stop
	stop  chan struct{}  // stop ends the wait for timer
	wg    sync.WaitGroup // wg waits for the goroutines that wait for timers
}

func (d *delayed) after(delay time.Duration, reason reflector.Reason) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		return
	}
	timer, stop := d.clock.NewTimer(delay), make(chan struct{})
	d.timer, d.stop = timer, stop
	d.wg.Go(func() {
		select {
		case <-timer.C():
			d.ask(reason)
		case <-stop:
		}
	})
}

func (d *delayed) cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		close(d.stop)
		d.timer, d.stop = nil, nil
	}
}

func (d *delayed) close() {
	d.cancel()
	d.wg.Wait()
}
