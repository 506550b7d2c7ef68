package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

// model is a random history of one server and one sink.
type model struct {
	// denied is true once an answer was a 403: after a denied watch, lists for ReasonListOnly may follow.
	denied bool
	rig
	t *rapid.T
	// down is true while the server does not listen. faults are the answers to the next requests.
	down   bool
	faults []error
	o      reflector.Options
	// How often a list was allowed: for a lost history, and for a rewind.
	lostHistory, rewinds int
	n                    int
	// probed is the lowest resourceVersion in the answers to probes since the last Synced.
	probed string
	// muted is true if there were times without bookmarks, so that a drain cannot be exact.
	muted bool
	// l is Options.Limiter; nil if there is none. dialErr is the error of requests while the server does not listen.
	l       *limiter.Limiter
	dialErr error
	// stuck is how many of the next requests ignore their context; wasStuck is true if there were any.
	stuck    int
	wasStuck bool
	// neighbour uses the same Limiter, and has its own server, which never fails.
	neighbour *rig
}

// TestModel checks the invariants under random faults of the server. The sink always holds the server's state at the
// sink's resourceVersion, ends up with the server's state, and is listed only if it cannot be resumed.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := &model{t: t, rig: rig{t: t, s: newServer(), m: newMemory()}}
			m.run()
		})
	})
}

func (m *model) run() {
	m.s.onList = func(r request) (runtime.Object, error) {
		if err := m.fault(); err != nil || !r.probe() || r.FieldSelector != "" {
			return nil, err
		}
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		if now := strconv.Itoa(m.s.rv); m.probed == "" || below(now, m.probed) {
			m.probed = now
		}
		return nil, nil
	}
	m.m.onSynced = func(rv string) {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		if m.s.view != nil { // objects of other shards move the sink with the next bookmark only
			rv = maxRV(rv, m.r.Status().ResourceVersion)
		}
		if !m.muted && below(rv, m.probed) {
			m.t.Errorf("synced at %s, the server was at %s before", rv, m.probed)
		}
		m.probed = ""
	}
	m.s.onWatch = func(context.Context, request) (watch.Interface, error) { return nil, m.fault() }
	m.draw()
	for range rapid.IntRange(0, 12).Draw(m.t, "objects") {
		m.write()
	}
	m.start(m.o)
	actions := m.actions()
	for range rapid.IntRange(1, 60).Draw(m.t, "steps") {
		actions[rapid.IntRange(0, len(actions)-1).Draw(m.t, "action")].f()
		m.prefix()
	}
	m.end()
}

// draw draws the properties of the server and the options of the reflector.
func (m *model) draw() {
	m.s.expireInBand = rapid.Bool().Draw(m.t, "410 in band")
	m.o.PageSize = rapid.SampledFrom([]int64{2, 5, 2000}).Draw(m.t, "page size")
	if rapid.Bool().Draw(m.t, "shard") {
		m.o.Shard, m.s.view = half, half
		m.s.supportsShards = rapid.Bool().Draw(m.t, "supported")
	}
	if rapid.Bool().Draw(m.t, "by metadata") {
		m.o.ListMetadata = (&metadata{s: m.s}).list
	}
	if rapid.Bool().Draw(m.t, "compares") {
		m.o.Compare = m.compared(func() error {
			m.s.mu.Lock()
			defer m.s.mu.Unlock()
			m.probed = "" // differences are named: no probe's resourceVersion has to be reached
			m.s.mu.Unlock()
			defer m.s.mu.Lock()
			return m.fault()
		}, nil).Compare
	}
	m.o.RelistSpread = rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Second}).Draw(m.t, "spread")
	m.drawConnection()
}

// action is one random event.
type action struct {
	name string
	f    func()
}

func (m *model) actions() []action {
	return []action{
		{"write", m.write}, {"write", m.write}, {"write", m.write},
		{"burst", m.burst},
		{"other", func() { m.s.other(rapid.IntRange(1, 20).Draw(m.t, "n")) }},
		{"sleep", m.nap}, {"sleep", m.nap}, {"sleep", m.nap},
		{"error event", func() { m.cut(m.statusError()) }},
		{"end", func() { m.cut(nil) }},
		{"mute", m.mute},
		{"faults", m.inject},
		{"down", func() { m.setDown(true); m.cut(nil) }},
		{"up", func() { m.setDown(false) }},
		{"bookmarks", func() { m.s.mu.Lock(); m.s.noBookmarks, m.muted = !m.s.noBookmarks, true; m.s.mu.Unlock() }},
		{"compact", m.compact},
		{"server restart", func() { m.compact(); m.cut(nil) }},
		{"slow page", func() { m.slow(func(request) { time.Sleep(time.Second); m.write() }) }},
		{"fast page", func() { m.slow(nil) }},
		{"our restart", m.again},
		{"rewind", m.rewind},
		{"others lose the connection", func() { m.l.Lost(errNoListener) }},
		{"others receive data", func() { m.l.Received() }},
		{"stuck", m.stick},
		{"the neighbour's watch ends", m.cutNeighbour},
		{"relist", func() { m.r.Relist(reflector.ReasonOpenAPI) }},
	}
}

// end repairs all faults and checks the final state.
func (m *model) end() {
	m.quiesce()
	m.converged()
	if st := m.r.Status(); st.Err != nil || st.State != reflector.Watch {
		m.t.Errorf("status %+v", st)
	}
	m.reasons()
	m.stop()
	m.checkNeighbour()
	m.slotsAreFree()
	time.Sleep(stuckTime) // for the requests that ignore their context
}

// fault returns the error of the next request; nil if it is answered.
func (m *model) fault() error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.stuck > 0 {
		m.stuck--
		m.s.mu.Unlock()
		time.Sleep(stuckTime)
		m.s.mu.Lock()
	}
	if m.down {
		return m.dialErr
	}
	if len(m.faults) == 0 {
		return nil
	}
	err := m.faults[0]
	m.faults = m.faults[1:]
	return err
}

// cut ends the open watch.
func (m *model) cut(err *apierrors.StatusError) {
	m.broken()
	m.s.cut(err)
}

// mute makes the open watch silent, until the reflector replaces it.
func (m *model) mute() {
	m.broken()
	m.s.mute()
}

func (m *model) broken() {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
}

func (m *model) setDown(down bool) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.down = down
}

// slow sets the function that runs between a list and its answer.
func (m *model) slow(f func(request)) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.afterList = f
}

// tick numbers the writes; a slow page writes too.
func (m *model) tick() int {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.n++
	return m.n
}

func (m *model) write() {
	n := m.tick()
	key := modelKey(n * 7)
	if n%4 == 0 {
		m.s.remove(key)
		return
	}
	m.s.put(key, fmt.Sprint(n))
}

func modelKey(n int) string { return fmt.Sprintf("a/%02d", n%23) }

func (m *model) burst() {
	for range 30 {
		m.write()
	}
}

func (m *model) nap() {
	m.sleep(time.Duration(rapid.SampledFrom([]int{1, 200, 900, 3000, 20_000, 100_000, 400_000}).Draw(m.t,
		"ms")) * time.Millisecond)
	if st := m.r.Status(); st.Live && st.Err != nil {
		m.t.Errorf("live with an error: %+v", st)
	}
}

func (m *model) statusError() *apierrors.StatusError {
	err := rapid.SampledFrom([]*apierrors.StatusError{
		apierrors.NewInternalError(errors.New("boom")),
		apierrors.NewTooManyRequests("later", 2),
		apierrors.NewUnauthorized("no"),
		apierrors.NewForbidden(things, "", errors.New("no")),
	}).Draw(m.t, "code")
	m.denied = m.denied || apierrors.IsForbidden(err)
	return err
}

func (m *model) inject() {
	n := rapid.IntRange(1, 4).Draw(m.t, "n")
	errs := []error{errRefused, errNoListener, context.DeadlineExceeded, m.statusError()}
	err := rapid.SampledFrom(errs).Draw(m.t, "error")
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	for range n {
		m.faults = append(m.faults, err)
	}
}

func (m *model) compact() {
	m.lostHistory++
	m.s.compact()
}

// again restarts the reflector on the same sink; the counters continue.
func (m *model) again() {
	m.reasons()
	m.stop()
	m.m.mu.Lock()
	m.m.replace = nil
	m.m.mu.Unlock()
	m.s.mu.Lock()
	m.s.requests = nil
	m.s.mu.Unlock()
	m.start(m.o)
}

// rewind restores a backup after the sink has stored an object that the backup lacks. Nothing changes that object
// again, so the guards must detect it.
func (m *model) rewind() {
	m.quiesce()
	m.rewinds++
	b := m.s.backup()
	if m.s.view != nil {
		m.s.nextIn(true)
	}
	m.s.put(fmt.Sprintf("lost/%d", m.tick()), "1")
	if rapid.Bool().Draw(m.t, "more is lost") {
		m.write()
	}
	m.sleep(time.Second)
	if !m.m.equal(m.s) {
		m.t.Fatalf("before the rewind: the sink holds %v, the server has %v", m.m.state(), m.s.state())
	}
	m.s.restore(b)
	m.s.other(rapid.SampledFrom([]int{0, 1, 2, 3, 50}).Draw(m.t, "overtakes by"))
	if rapid.Bool().Draw(m.t, "writes after") {
		m.write()
		m.write()
	}
	m.quiesce()
	m.converged()
}

// quiesce repairs all faults and waits until nothing changes any more.
func (m *model) quiesce() {
	m.s.mu.Lock()
	m.stuck, m.down, m.faults, m.s.noBookmarks, m.s.afterList = 0, false, nil, false, nil
	m.s.mu.Unlock()
	m.s.other(1)
	m.sleep(12*time.Minute + stuckTime)
}

// prefix checks that the sink's state is the server's state at the sink's resourceVersion.
func (m *model) prefix() {
	rv, got := m.m.at()
	if rv == "" {
		return
	}
	if want := m.s.stateAt(rv); !maps.Equal(got, want) {
		m.t.Errorf("at %s the sink holds %v, the server had %v", rv, got, want)
	}
}

// reasons checks that each list had a cause.
func (m *model) reasons() {
	synctest.Wait()
	st := m.r.Status()
	for reason, n := range st.Relists {
		switch {
		case reason == reflector.ReasonOpenAPI: // an action requests it
		case reason == reflector.ReasonListOnly && m.denied:
		case reason == reflector.ReasonExpired && m.lostHistory+m.rewinds > 0:
		case (reason == reflector.ReasonAhead || reason == reflector.ReasonRewound) && n <= m.rewinds:
		default:
			m.t.Errorf("%d lists for %s, after %d losses of history and %d rewinds", n, reason, m.lostHistory, m.rewinds)
		}
	}
}
