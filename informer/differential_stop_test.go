package informer_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing/synctest"
	"time"
)

// stop ends the runs of both informers, possibly amid other steps, and checks that no goroutine remains.
func (r *runner) stop(o op) {
	if r.sides[0].runs == 0 {
		return
	}
	r.mutate.restore(r.sides[0].mine)
	for _, s := range r.sides {
		s.cancel()
	}
	r.ph.cutOff = true
	synctest.Wait()
	if !o.racing && r.evidence().calm() && r.sides[0].ended() != r.sides[1].ended() && !r.panicked() && !r.resyncing() {
		r.failf("when the context had ended, our Run had returned: %v, client-go's: %v", r.sides[0].ended(),
			r.sides[1].ended())
	}
	r.unblock()
	for _, s := range r.sides {
		<-s.done
	}
	total := r.total()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	if got := r.total(); got != total {
		r.failf("%d calls came after Run had returned", got-total)
	}
	r.w.mu.Lock()
	for n, f := range r.w.fronts {
		if len(f.streams) > 0 {
			r.failf("%s left %d watches open", r.sides[n].name, len(f.streams))
		}
	}
	r.w.mu.Unlock()
	r.each(func(s *side) error { return newTap(r.w, handlerSpec{kind: "full", how: "plain"}).register(s.inf) })
	r.each(func(s *side) error { return s.inf.AddIndexers(byValue("after the end")) })
	r.compareNow("stopped")
	r.comparePhase(false)
}

func (r *runner) total() (n int) {
	for _, s := range r.sides {
		for _, p := range s.taps {
			p.mu.Lock()
			n += p.total
			p.mu.Unlock()
		}
	}
	return n
}

// restart ends both informers and makes new ones with their handlers, as a new process would. Our informer keeps its
// file.
func (r *runner) restart(o op) {
	if r.st == nil || r.sides[0].runs == 0 || r.sides[0].ended() {
		return
	}
	poisoned := maps.Clone(r.evidence().poisoned)
	r.stop(o)
	r.close()
	r.open()
	r.ph.poisoned = poisoned
	r.ph.restarted, r.ph.cold, r.ph.cutOff, r.ph.racing, r.drifted = true, true, false, false, false
	for _, s := range r.sides {
		var specs []handlerSpec
		for _, p := range s.taps {
			specs = append(specs, p.spec)
		}
		s.taps = nil
		for _, spec := range specs {
			if err := s.add(spec); err != nil {
				r.failf("%s: %v", s.name, err)
			}
		}
		s.start()
	}
}

func (r *runner) close() {
	if r.st == nil {
		return
	}
	if report, err := r.st.Check(context.Background()); err != nil || len(report.Problems) > 0 {
		r.failf("Check: %v, %q", err, report.Problems)
	}
	if err := r.st.Close(); err != nil {
		r.failf("close the store: %v", err)
	}
	r.st = nil
}

func (r *runner) end() {
	r.unblock()
	r.mutate.restore(r.sides[0].mine)
	for _, s := range r.sides {
		if s.cancel != nil {
			s.cancel()
			<-s.done
		}
	}
	if r.st != nil {
		r.close()
		if err := os.Remove(filepath.Join(r.dir, fmt.Sprint(r.s.seed))); err != nil {
			r.failf("%v", err)
		}
	}
}
