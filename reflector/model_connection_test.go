package reflector_test

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

// drawConnection draws whether the reflector shares an Options.Limiter with a second reflector, the neighbour.
func (m *model) drawConnection() {
	m.dialErr = errRefused
	if !rapid.Bool().Draw(m.t, "link") {
		return
	}
	m.l, m.dialErr = limiter.New(), errNoListener
	m.o.Limiter = m.l
	m.neighbour = &rig{t: m.t, s: newServer(), m: newMemory()}
	m.neighbour.s.put("a/x", "1")
	m.neighbour.start(reflector.Options{Limiter: m.l})
}

func (m *model) cutNeighbour() {
	if m.neighbour == nil {
		return
	}
	m.neighbour.s.put("a/x", fmt.Sprint(m.tick()))
	m.neighbour.s.cut(m.statusError())
}

func (m *model) stick() {
	n := rapid.IntRange(1, 2).Draw(m.t, "n")
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.stuck, m.wasStuck = n, true
}

const stuckTime = 7 * time.Minute

func (m *model) checkNeighbour() {
	n := m.neighbour
	if n == nil {
		return
	}
	n.converged()
	if st := n.r.Status(); st.State != reflector.Watch || st.Err != nil || !st.Live {
		m.t.Errorf("the neighbour: %+v", st)
	}
	n.stop()
}

func (m *model) slotsAreFree() {
	if m.l == nil {
		return
	}
	m.l.Received()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for what, slots := range map[string]struct {
		n    int
		take func(context.Context, bool, func(error)) (*limiter.Slot, error)
	}{"connect": {8, m.l.Connect}, "list": {2, m.l.List}} {
		for range slots.n {
			slot, err := slots.take(ctx, false, nil)
			if err != nil {
				m.t.Errorf("a slot to %s is lost", what)
			}
			defer slot.Done()
		}
	}
}
