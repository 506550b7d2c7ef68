package progress

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// showAfter is how long something takes before it is shown.
	showAfter = time.Second
	// redrawAfter is how often it is redrawn at most.
	redrawAfter = 100 * time.Millisecond
	// width of the bar itself, in columns.
	width = 20
)

// Bar is something that comes along.
type Bar struct {
	w       io.Writer
	title   string
	total   int64
	started time.Time
	// uncounted: what Add counts says nothing.
	uncounted bool

	mu    sync.Mutex
	done  int64                    // guarded by mu
	ended bool                     // guarded by mu
	shown *progressbar.ProgressBar // nil until it is; guarded by mu
}

// Start begins something of which there is total in all; 0 or less if that is not known. isTerminal says whether w is
// one.
func Start(w io.Writer, isTerminal bool, title string, total int64) *Bar {
	if !isTerminal || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &Bar{w: w, title: title, total: total, started: time.Now()}
}

// Add says that n more are done. It may be more than the total in the end: nobody knows it exactly.
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
		done = min(done, b.total-1) // the last step would end it
	}
	_ = b.shown.Set64(done) // a terminal that has gone is no reason to stop
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
		progressbar.OptionSetSpinnerChangeInterval(0), // which would be a goroutine
	}
	if !b.uncounted {
		options = append(options, progressbar.OptionShowCount())
	}
	return progressbar.NewOptions64(total, options...)
}

// Done erases what is shown. A second call does nothing.
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
