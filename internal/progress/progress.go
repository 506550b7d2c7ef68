package progress

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// showAfter is the time after which a progress bar is first drawn.
	showAfter = time.Second
	// redrawAfter is the minimum time between two drawings.
	redrawAfter = 100 * time.Millisecond
	// width is in columns, without the bar's texts.
	width = 20
)

// Bar is a progress bar for one operation. The methods of a nil Bar do nothing.
type Bar struct {
	w       io.Writer
	title   string
	total   int64
	started time.Time
	// uncounted is true if the number of steps is not printed beside the bar.
	uncounted bool

	mu    sync.Mutex
	done  int64                    // number of finished steps; mu guards done, ended and shown
	ended bool                     // true after Done
	shown *progressbar.ProgressBar // the drawn bar; nil until it is first drawn
}

// Start returns a progress bar for an operation with total steps; a total of 0 or less is an unknown number. It returns
// nil if isTerminal is false or the terminal is dumb (TERM=dumb).
func Start(w io.Writer, isTerminal bool, title string, total int64) *Bar {
	if !isTerminal || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &Bar{w: w, title: title, total: total, started: time.Now()}
}

// Add adds n finished steps. Their sum may exceed the bar's total, which is often only an estimate.
func (b *Bar) Add(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.done += int64(n)
	if b.shown == nil {
		if time.Since(b.started) < showAfter {
			return
		}
		b.shown = b.open()
	}
	done := b.done
	if b.total > 0 {
		done = min(done, b.total-1) // never all steps, because the library ends a bar at its last step
	}
	_ = b.shown.Set64(done) // a closed terminal is no reason to stop the operation
}

func (b *Bar) open() *progressbar.ProgressBar {
	total := max(b.total, -1)
	if total == 0 {
		total = -1
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(b.title), progressbar.OptionSetWidth(width),
		progressbar.OptionThrottle(redrawAfter), progressbar.OptionSetPredictTime(b.total > 0),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetSpinnerChangeInterval(0), // a spinner would start a goroutine
	}
	if !b.uncounted {
		options = append(options, progressbar.OptionShowCount())
	}
	return progressbar.NewOptions64(total, options...)
}

// Done erases the bar. A second call does nothing.
func (b *Bar) Done() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.shown != nil {
		_ = b.shown.Clear()
		b.shown = nil
	}
}

// Busy shows that an operation of unknown length is running, and for how long. end erases the display, and waits for
// the goroutine that draws. A second call of end does nothing.
func Busy(w io.Writer, isTerminal bool, title string) (end func()) {
	b := Start(w, isTerminal, title, 0)
	if b == nil {
		return func() {}
	}
	b.uncounted = true
	stop := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		tick := time.NewTicker(redrawAfter)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				b.Add(1)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(stop)
		drawing.Wait()
		b.Done()
	})
}
