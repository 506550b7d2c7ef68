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

// model is the state of a random test of one scripted server, one reflector and one Sink.
type model struct {
	// denied is true once the server has answered 403. After a denied watch, lists for ReasonListOnly are allowed.
	denied bool
	rig
	t *rapid.T
	// down is true while the server does not listen. faults are the errors with which it answers the next requests.
	down   bool
	faults []error
	o      reflector.Options
	// lostHistory and rewinds count the allowed lists: after a compaction, and after a restore of the server.
	lostHistory, rewinds int
	n                    int
	// probed is the lowest resourceVersion that the server had when it answered a probe since the last Synced. Synced
	// must not be called below probed.
	probed string
	// muted is true if the server has sent no bookmarks for some time, so that Synced may be called at an older state.
	muted   bool
	l       *limiter.Limiter
	dialErr error
	// stuck is how many of the next requests ignore the end of their context. wasStuck is true once stuck was not 0.
	stuck    int
	wasStuck bool
	// neighbour is a second reflector that uses the same Limiter. It has its own server, which never fails.
	neighbour *rig
}

// TestModel checks under random faults of the server that the Sink always holds the server's state at the Sink's
// resourceVersion, ends up with the server's state, and is listed only if it cannot be resumed.
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
		if m.s.view != nil { // an event of another shard reaches the Sink only with the next bookmark
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
			m.probed = "" // Compare lists all differences, so Synced need not wait for a probe's resourceVersion
			m.s.mu.Unlock()
			defer m.s.mu.Lock()
			return m.fault()
		}, nil).Compare
	}
	m.o.RelistSpread = rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Second}).Draw(m.t, "spread")
	m.drawConnection()
}

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
	time.Sleep(stuckTime) // by then the requests that ignore their context have returned
}

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

func (m *model) cut(err *apierrors.StatusError) {
	m.broken()
	m.s.cut(err)
}

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

func (m *model) slow(f func(request)) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.afterList = f
}

// tick returns the number of the next write. Writes during a slow page are counted too.
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

// again restarts the reflector on the same Sink. The expected numbers of lists and restores continue.
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

// rewind restores a backup of the server after the Sink has stored an object that the backup lacks. That object does
// not change again, so the reflector must detect the restore.
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

// quiesce repairs all faults and waits until no state changes any more.
func (m *model) quiesce() {
	m.s.mu.Lock()
	m.stuck, m.down, m.faults, m.s.noBookmarks, m.s.afterList = 0, false, nil, false, nil
	m.s.mu.Unlock()
	m.s.other(1)
	m.sleep(12*time.Minute + stuckTime)
}

// prefix checks that the Sink's objects are the server's objects at the Sink's resourceVersion.
func (m *model) prefix() {
	rv, got := m.m.at()
	if rv == "" {
		return
	}
	if want := m.s.stateAt(rv); !maps.Equal(got, want) {
		m.t.Errorf("at %s the sink holds %v, the server had %v", rv, got, want)
	}
}

func (m *model) reasons() {
	synctest.Wait()
	st := m.r.Status()
	for reason, n := range st.Relists {
		switch {
		case reason == reflector.ReasonOpenAPI: // a random action requests a list for this reason
		case reason == reflector.ReasonListOnly && m.denied:
		case reason == reflector.ReasonExpired && m.lostHistory+m.rewinds > 0:
		case (reason == reflector.ReasonAhead || reason == reflector.ReasonRewound) && n <= m.rewinds:
		default:
			m.t.Errorf("%d lists for %s, after %d losses of history and %d rewinds", n, reason, m.lostHistory, m.rewinds)
		}
	}
}
