package informer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/store"
)

// TestModelClientGo runs our informer and client-go's on one server, through random writes, outages, losses of history,
// late and removed handlers, and restarts of ours. After each phase:
//
//   - both stores equal the server;
//   - if nobody was disconnected, both have told their handlers the same, key by key, word by word;
//   - ours has told them exactly what the server's history says, unless that was lost or it had no store to resume from;
//   - no handler of ours was told anything that does not follow from what it was told before.
func TestModelClientGo(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		rapid.SyncTest(t, func(t *rapid.T) {
			m := &model{t: t, srv: newServer(), path: filepath.Join(dir, fmt.Sprint(n))}
			m.srv.pageDelay = time.Second
			m.startTheirs()
			m.startOurs()
			defer m.end()
			m.settle()
			t.Repeat(map[string]func(*rapid.T){
				"write": m.write, "delete": m.remove, "quiet": m.quiet, "bookmark": func(*rapid.T) { m.srv.bookmark() },
				"settle": func(*rapid.T) { m.settle() }, "outage": m.outage, "lose history": m.loseHistory,
				"restart": m.restart, "late handler": m.lateHandler, "remove handler": m.removeHandler,
			})
			m.settle()
		})
	})
}

// pair is the same handler at both informers.
type pair struct {
	ours, theirs *recorder
	ourReg       cache.ResourceEventHandlerRegistration
	theirReg     cache.ResourceEventHandlerRegistration
	known        map[string]string // what ours has been told
	fresh        bool              // registered in this phase, while events were under way
}

type model struct {
	t     *rapid.T
	srv   *server
	path  string
	pairs []*pair

	st     *store.Store
	ours   *Informer
	theirs cache.SharedIndexInformer
	stops  []func() // of theirs, then of ours

	value     int
	cut       bool // in this phase somebody was disconnected
	lost      bool // in this phase history was lost
	restarted bool // in this phase ours was restarted
	restored  int  // objects that it found in its file
}

func (m *model) key(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a/1", "a/2", "a-b/1", "b/1", "b/2"}).Draw(t, "key")
}

func (m *model) write(t *rapid.T) {
	m.value++
	m.srv.write(m.key(t), fmt.Sprint(m.value))
}

func (m *model) change(t *rapid.T) {
	if rapid.Bool().Draw(t, "delete") {
		m.remove(t)
	} else {
		m.write(t)
	}
}

func (m *model) remove(t *rapid.T) { m.srv.delete(m.key(t)) }

// quiet lets events pass, but does not compare.
func (m *model) quiet(*rapid.T) { synctest.Wait() }

// outage disconnects everybody, changes things, and comes back.
func (m *model) outage(t *rapid.T) {
	m.cut = true
	m.srv.setFail(refuse)
	m.srv.disconnect()
	time.Sleep(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		m.change(t)
	}
	m.srv.setFail(nil)
}

// loseHistory also goes on changing things while the informers list.
func (m *model) loseHistory(t *rapid.T) {
	m.outage(t)
	m.lost = true
	m.srv.compact()
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		time.Sleep(time.Duration(rapid.IntRange(0, 2000).Draw(t, "milliseconds")) * time.Millisecond)
		m.change(t)
	}
}

func (m *model) restart(t *rapid.T) {
	m.settle() // theirs is to be compared with what ours has told so far
	m.stopOurs()
	for range rapid.IntRange(0, 5).Draw(t, "changes") {
		m.change(t)
	}
	if rapid.IntRange(0, 3).Draw(t, "lose history") == 0 {
		m.cut, m.lost = true, true
		m.srv.compact()
	}
	m.startOurs()
	m.restarted = true
	m.settle()
}

func (m *model) lateHandler(*rapid.T) {
	if len(m.pairs) < 4 {
		p := m.newPair()
		p.fresh = true
	}
}

func (m *model) removeHandler(t *rapid.T) {
	if len(m.pairs) < 2 {
		return
	}
	n := rapid.IntRange(1, len(m.pairs)-1).Draw(t, "handler")
	p := m.pairs[n]
	if err := m.ours.RemoveEventHandler(p.ourReg); err != nil {
		t.Fatal(err)
	}
	if err := m.theirs.RemoveEventHandler(p.theirReg); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the call that was being made
	p.ours.take()
	m.pairs = slices.Delete(m.pairs, n, n+1)
	before := p.ours
	m.write(t)
	synctest.Wait()
	if got := before.take(); len(got) > 0 {
		t.Errorf("a removed handler was told %q", got)
	}
}

// newPair registers a handler at whichever of the informers exist.
func (m *model) newPair() *pair {
	p := &pair{theirs: &recorder{}}
	var err error
	if p.theirReg, err = m.theirs.AddEventHandler(p.theirs); err != nil {
		m.t.Fatal(err)
	}
	m.attach(p)
	m.pairs = append(m.pairs, p)
	return p
}

func (m *model) attach(p *pair) {
	p.ours, p.known = &recorder{}, map[string]string{}
	var err error
	if m.ours != nil {
		if p.ourReg, err = m.ours.AddEventHandler(p.ours); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *model) startTheirs() {
	m.theirs = cache.NewSharedIndexInformer(m.srv, &corev1.Pod{}, 0, cache.Indexers{})
	m.newPair()
	m.stops = append(m.stops, runInformer(m.theirs))
}

func (m *model) startOurs() {
	quiet := logr.Discard()
	var err error
	if m.st, err = store.Open(m.path, store.Options{Logger: &quiet}); err != nil {
		m.t.Fatal(err)
	}
	m.ours, err = New(m.srv, &corev1.Pod{}, Options{Store: m.st, Identity: podsIdentity, Logger: &quiet, PageSize: 2})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range m.pairs {
		m.attach(p)
	}
	m.cut = true // lists take time
	m.stops = append(m.stops, runInformer(m.ours))
}

func runInformer(i cache.SharedIndexInformer) (stop func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (m *model) stopOurs() {
	m.restored = len(contents(m.ours))
	m.stops[1]()
	m.stops = m.stops[:1]
	report, err := m.st.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		m.t.Errorf("Check: %v, %q", err, report.Problems)
	}
	if err := m.st.Close(); err != nil {
		m.t.Errorf("close the store: %v", err)
	}
}

func (m *model) end() {
	m.stopOurs()
	m.stops[0]()
	if err := os.Remove(m.path); err != nil {
		m.t.Error(err)
	}
}

// settle waits until both informers are up to date, and compares. It ends a phase.
func (m *model) settle() {
	if m.cut || m.restarted {
		time.Sleep(3 * time.Minute)
	}
	synctest.Wait()
	state := m.srv.state()
	history := m.srv.takeLog()
	same(m.t, "our store", contents(m.ours), state)
	same(m.t, "client-go's store", contents(m.theirs), state)
	if rv := m.ours.LastSyncResourceVersion(); rv != fmt.Sprint(m.srv.rv) && len(history) > 0 {
		m.t.Errorf("our resourceVersion is %s, the server's %d", rv, m.srv.rv)
	}
	for n, p := range m.pairs {
		m.compare(fmt.Sprintf("handler %d", n), p, state, history)
		p.fresh = false
	}
	m.cut, m.lost, m.restarted = false, false, false
}

func (m *model) compare(name string, p *pair, state, history []string) {
	ours, theirs := p.ours.take(), p.theirs.take()
	first := len(p.known) == 0 && slices.ContainsFunc(ours, isInitial)
	replay(m.t, p.known, ours)
	same(m.t, name+": what it knows", sortedValues(p.known), state)
	if !p.ourReg.HasSynced() || !p.theirReg.HasSynced() {
		m.t.Errorf("%s: synced at ours %v, at client-go's %v", name, p.ourReg.HasSynced(), p.theirReg.HasSynced())
	}
	if !m.cut && !m.restarted && !p.fresh {
		perKey(m.t, name+": ours against client-go's", ours, slices.DeleteFunc(theirs, isRepeat))
	}
	if !m.lost && !p.fresh && !first {
		perKey(m.t, name+": ours against the history", ours, history)
	}
	if m.restarted && !m.lost && !p.fresh {
		perKey(m.t, name+": after the restart, against the history", afterRestore(ours, m.restored), history)
	}
}

func isInitial(line string) bool { return strings.HasSuffix(line, " initial") }

// isRepeat: client-go tells handlers of unchanged objects when it lists again. We do not.
func isRepeat(line string) bool {
	f := strings.Fields(line)
	return f[0] == "update" && f[1] == f[3]
}

// afterRestore drops the calls about the objects that were restored, and the mark of the initial list, which is on
// until the resume has drained.
func afterRestore(lines []string, restored int) (out []string) {
	for _, line := range lines[min(restored, len(lines)):] {
		out = append(out, strings.TrimSuffix(line, " initial"))
	}
	return out
}

func contents(i cache.SharedIndexInformer) (out []string) {
	for _, obj := range i.GetStore().List() {
		out = append(out, describe(obj))
	}
	slices.Sort(out)
	return out
}

func same(t failer, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// perKey compares two traces key by key.
func perKey(t failer, what string, got, want []string) {
	t.Helper()
	split := func(lines []string) map[string][]string {
		out := map[string][]string{}
		for _, line := range lines {
			key := keyIn(strings.Fields(line)[1])
			out[key] = append(out[key], line)
		}
		return out
	}
	g, w := split(got), split(want)
	for key := range w {
		same(t, what+", "+key, g[key], w[key])
	}
	for key := range g {
		if w[key] == nil {
			same(t, what+", "+key, g[key], nil)
		}
	}
}
