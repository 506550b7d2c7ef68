package progress

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// showAfter is the time after which a bar is first drawn.
	showAfter = time.Second
	// redrawAfter is the minimum time between redraws.
	redrawAfter = 100 * time.Millisecond
	// width is the width of the bar itself, in columns.
	width = 20
)

// Bar shows the progress of one operation. A nil Bar does nothing.
type Bar struct {
	w       io.Writer
	title   string
	total   int64
	started time.Time
	// uncounted is true if the count is not shown.
	uncounted bool

	mu    sync.Mutex
	done  int64                    // guarded by mu
	ended bool                     // guarded by mu
	shown *progressbar.ProgressBar // nil until it is first drawn; guarded by mu
}

// Start returns a Bar for an operation with total steps; 0 or less if the number is unknown. It returns nil if
// isTerminal is false or the terminal is dumb.
func Start(w io.Writer, isTerminal bool, title string, total int64) *Bar {
	if !isTerminal || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &Bar{w: w, title: title, total: total, started: time.Now()}
}

// Add adds n finished steps. The sum may exceed total, which is often only an estimate.
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
		done = min(done, b.total-1) // the last step would end the bar
	}
	_ = b.shown.Set64(done) // a closed terminal is no reason to stop
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
