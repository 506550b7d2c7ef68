package reflector

import (
	"testing"
	"time"
)

// TestFoundWhileRefused: what the sink finds while the first list is refused is resumed from, however soon the next attempt comes.
func TestFoundWhileRefused(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(3)
		g.start(Options{})
		g.restart(func() {
			g.m.cp = &Checkpoint{} // as of a file that another process holds
			g.atPage(1, func() error {
				g.m.mu.Lock()
				defer g.m.mu.Unlock()
				g.m.cp = nil
				return errRefused
			})
		}, Options{})
		g.sleep(time.Minute)
		if st := g.r.Status(); st.Lists != 1 || st.Resumes == 0 || !st.Live {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}
