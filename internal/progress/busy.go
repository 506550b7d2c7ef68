package progress

import (
	"io"
	"sync"
	"time"
)

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
