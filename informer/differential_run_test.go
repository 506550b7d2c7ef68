package informer_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// unknownKey is the key of a pod whose only event is a DELETED.
const unknownKey = "nobody/knows"

type runner struct {
	s     script
	dir   string
	w     *world
	sides [2]*side // sides are our informer's side, then client-go's
	st    *store.Store
	// mutate injects a fault into our informer, unless it is nil.
	mutate *mutant

	ph phase
	// drifted is true if the informers have synced at different times, or client-go has listed again, so that their resync
	// timers started at different times.
	drifted bool
	// moved is true if the servers' resourceVersion has advanced without an event.
	moved bool
	fails []string
	count map[string]int
}

// phase is what happened in a script between two comparisons of the informers.
type phase struct {
	racing, restarted, cold, paged bool
	lost                           bool
	cutOff                         bool
	flooded                        bool // flooded is true if calls of one of our informer's handlers have merged
	lists                          [2][]int
	poisoned                       map[string]bool
	paths                          map[string]*track

	firstList, firstHanded, firstOther [2]int
	firstChange                        int
}

// run runs the script in a synctest bubble of its own. It returns the differences between the informers and the
// coverage counts.
func (s script) run(t *testing.T, dir string, m *mutant) (fails []string, count map[string]int) {
	r := &runner{s: s, dir: dir, mutate: m, count: map[string]int{}}
	synctest.Test(t, func(*testing.T) {
		r.w = newWorld()
		for n, name := range []string{"ours", "client-go"} {
			f := newFront(r.w)
			f.watchList = n == 1 && s.config.watchList
			f.listDelay, f.pageDelay = s.config.listDelay, s.config.pageDelay
			r.w.fronts[n] = f
			r.sides[n] = &side{name: name, c: s.config, w: r.w, f: f}
		}
		r.open()
		r.ph.cold = true
		r.count["answers "+s.config.contentType]++
		for n, o := range s.ops {
			r.step(n, o)
			if len(r.fails) > 0 {
				break
			}
		}
		r.end()
	})
	return r.fails, r.count
}

func (r *runner) failf(format string, args ...any) {
	r.fails = append(r.fails, fmt.Sprintf(format, args...))
}

func (r *runner) open() {
	if r.s.config.onDisk {
		quiet := logr.Discard()
		st, err := store.Open(filepath.Join(r.dir, fmt.Sprint(r.s.seed)),
			store.Options{Logger: &quiet, CommitInterval: r.s.config.commitInterval})
		if err != nil {
			r.failf("open the store: %v", err)
			return
		}
		r.st = st
	}
	for _, s := range r.sides {
		if err := s.open(r.st); err != nil {
			r.failf("open %s: %v", s.name, err)
		}
	}
	r.mutate.install(r.sides[0].mine)
}

func (r *runner) step(n int, o op) {
	r.count[o.do]++
	r.ph.racing = r.ph.racing || o.racing
	r.do(o)
	if o.racing {
		return
	}
	synctest.Wait()
	r.compareNow(fmt.Sprintf("after step %d, %v", n, o))
}

func (r *runner) do(o op) {
	switch o.do {
	case "write":
		r.w.write(o.key, o.value)
	case "delete":
		r.w.delete(o.key)
	case "recreate":
		r.w.delete(o.key)
		r.w.write(o.key, o.value)
	case "burst":
		for n := range o.n {
			r.w.write(o.key, fmt.Sprintf("%s%d", "9", n))
			r.w.write("b/2", fmt.Sprintf("%s%d", "8", n))
		}
	case "flood":
		r.flood(o.n)
	case "wait":
		time.Sleep(o.d)
	case "idle":
		r.waitIdle()
	case "run":
		r.each(func(s *side) error {
			if s.runs == 0 {
				s.start()
			}
			return nil
		})
	case "run again":
		synctest.Wait() // the first run must have begun before Run is called a second time
		r.each(func(s *side) error {
			if s.runs > 0 {
				s.start()
			}
			return nil
		})
	case "stop":
		r.stop(o)
	case "restart":
		r.restart(o)
	case "bookmark":
		r.w.bookmark()
	case "other":
		r.w.other()
		r.moved = true
	case "compact":
		r.w.compact()
	case "odd":
		r.w.send(r.odd(o.how))
		// Our informer lists after a DELETED for an unknown object, because the server seems to have been rewound.
		r.ph.lost = r.ph.lost || o.how == "unknown delete"
	case "close", "cut", "error event", "fail", "outage", "outage over":
		r.injectFault(o)
	default:
		r.handlers(o)
	}
}

// flood makes n changes at the server, some of them deletes, faster than blocked handlers process them.
func (r *runner) flood(n int) {
	for i := range n {
		key := []string{"a/1", "a/2", "b/1"}[i*7%3]
		if i%37 == 36 {
			r.w.delete(key)
		} else {
			r.w.write(key, fmt.Sprint(1000+i))
		}
		if i%100 == 99 {
			synctest.Wait()
		}
	}
}

// each performs fn on both informers, and checks that fn fails for both or for neither.
func (r *runner) each(fn func(s *side) error) {
	ours, theirs := fn(r.sides[0]), fn(r.sides[1])
	if (ours == nil) != (theirs == nil) {
		r.failf("ours said %v, client-go %v", ours, theirs)
	}
	if ours != nil {
		r.count["errors of calls"]++
	}
}

func (r *runner) injectFault(o op) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, f := range r.w.fronts {
		switch o.do {
		case "fail":
			f.faults[o.verb] = append(f.faults[o.verb], slices.Repeat([]string{o.how}, o.n)...)
		case "outage", "outage over":
			f.down = o.how
		}
		for s := range maps.Clone(f.streams) {
			switch o.do {
			case "close":
				s.endLocked(true)
			case "cut", "outage":
				s.endLocked(false)
			case "error event":
				s.failLocked(o.how)
			}
		}
	}
	r.ph.lost = r.ph.lost || o.do == "close" || o.do == "cut" || o.do == "outage"
}

// odd returns a watch event that servers should not send.
func (r *runner) odd(how string) watch.Event {
	r.w.other()
	r.moved = true
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	switch m := r.w.bookmarkLocked().Object.(*corev1.Pod); how {
	case "other type":
		return watch.Event{Type: watch.Added,
			Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: m.ResourceVersion}}}
	case "unknown event":
		m.Name = "odd"
		return watch.Event{Type: "STRANGE", Object: m}
	default:
		m.Namespace, m.Name = "nobody", "knows"
		return watch.Event{Type: watch.Deleted, Object: m}
	}
}

func (r *runner) handlers(o op) {
	n := 0
	if len(r.sides[0].taps) > 0 {
		n = o.n % len(r.sides[0].taps)
	}
	r.each(func(s *side) error {
		switch o.do {
		case "add":
			err := s.add(o.spec)
			r.mutate.added(s.mine, s.taps[len(s.taps)-1], s.runs > 0)
			return err
		case "index":
			return s.inf.AddIndexers(byValue(o.value))
		case "set late":
			if s.runs > 0 {
				synctest.Wait()
				if s.inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}) == nil {
					return nil
				}
				return s.inf.SetTransform(nil)
			}
			return nil
		case "remove foreign":
			if err := s.inf.RemoveEventHandler(nil); err == nil {
				return nil
			}
			return s.inf.RemoveEventHandler(foreign{})
		}
		if len(s.taps) == 0 || s.taps[n].reg == nil {
			return nil
		}
		switch p := s.taps[n]; o.do {
		case "block":
			p.block()
		case "unblock":
			p.unblock()
		case "remove":
			p.removed = n > 0
			if n > 0 {
				return s.inf.RemoveEventHandler(p.reg)
			}
		case "shut down":
			p.removed = n > 0
			if n > 0 {
				go cache.ShutDownEventHandler(s.inf, p.reg) //nolint:errcheck // ShutdownChan shows its end
			}
		}
		return nil
	})
}

// foreign is a handler registration that another informer implementation could have returned.
type foreign struct {
	cache.ResourceEventHandlerRegistration
}
