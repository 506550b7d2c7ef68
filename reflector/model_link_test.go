package reflector_test

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

// drawLink draws whether there is a link, which a neighbour uses too.
func (m *model) drawLink() {
	m.nobody = errRefused
	if !rapid.Bool().Draw(m.t, "link") {
		return
	}
	m.l, m.nobody = limiter.New(), errNobody
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

// deafen makes the next requests heed no context.
func (m *model) deafen() {
	n := rapid.IntRange(1, 2).Draw(m.t, "n")
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.deaf, m.deafened = n, true
}

// deafness is how long a request takes that does not heed its context.
const deafness = 7 * time.Minute

// neighbourIsWell: whatever befalls one of those on a link, the others have what they should.
func (m *model) neighbourIsWell() {
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

// placesAreFree: a run that has ended has given back all that it had of the link.
func (m *model) placesAreFree() {
	if m.l == nil {
		return
	}
	m.l.Heard()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for what, places := range map[string]struct {
		n    int
		take func(context.Context, bool, func(error)) (*limiter.Slot, error)
	}{"connect": {8, m.l.Connect}, "list": {2, m.l.List}} {
		for range places.n {
			turn, err := places.take(ctx, false, nil)
			if err != nil {
				m.t.Errorf("a turn to %s is lost", what)
			}
			defer turn.Done()
		}
	}
}
