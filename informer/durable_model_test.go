package informer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store/consumer"
)

// durableStep is one step of a random script: a change at the server, and then an action on the informer.
type durableStep struct {
	kind  string // kind is write, delete, recreate, compact, wait, restart, or crash
	key   string
	after time.Duration // after is the time until the next step or the crash
}

var durableKeys = []string{"a/1", "a/2", "a/3", "b/1", "b/2"}

func drawDurableScript(t *rapid.T) []durableStep {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) durableStep {
		return durableStep{
			kind: rapid.SampledFrom([]string{"write", "write", "write", "delete", "delete", "recreate", "compact", "wait",
				"restart", "crash", "crash"}).Draw(t, "kind"),
			key: rapid.SampledFrom(durableKeys).Draw(t, "key"),
			// The store commits a second after the first change. A durable handler retries a failing key after 0.1 s.
			after: time.Duration(rapid.IntRange(0, 2500).Draw(t, "ms")) * time.Millisecond,
		}
	}), 1, 40).Draw(t, "script")
}

// durableView is a durable handler whose objects survive crashes, like rows in a database.
type durableView struct {
	mu      sync.Mutex
	random  *rand.Rand
	failing float64 // failing is the fraction of the handler's calls that fail
	objects map[string]string
	// last has the newest delivered resourceVersion by key since the informer was made.
	last     map[string]int
	problems []string // problems has the calls that contradict earlier calls
	resets   []consumer.ResetReason
}

func newDurableView(seed uint64, failing float64) *durableView {
	return &durableView{
		random: rand.New(rand.NewPCG(seed, 1)), failing: failing, objects: map[string]string{}, last: map[string]int{},
	}
}

func (v *durableView) handler() durable.Handler {
	return durable.Handler{OnChange: v.change, OnReset: v.reset}
}

func (v *durableView) change(_ context.Context, c consumer.Change) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch x := v.random.Float64(); {
	case x < v.failing/2:
		return errRefused
	case x < v.failing:
		panic("of the handler")
	}
	rv, err := strconv.Atoi(c.ResourceVersion)
	if err != nil || c.Object == nil || c.Object.(*corev1.Pod).ResourceVersion != c.ResourceVersion ||
		string(c.Object.(*corev1.Pod).UID) != c.UID {
		v.problems = append(v.problems, fmt.Sprintf("%+v: %v", c, err))
	}
	if rv < v.last[c.Key] {
		v.problems = append(v.problems, fmt.Sprintf("%s: %d after %d", c.Key, rv, v.last[c.Key]))
	}
	v.last[c.Key] = rv
	uid, _, _ := cutVersion(v.objects[c.Key])
	switch {
	case c.Type == entry.Upsert && uid != "" && uid != c.UID:
		v.problems = append(v.problems, fmt.Sprintf("%s: no delete of %s before %s arrived", c.Key, uid, c.UID))
		fallthrough
	case c.Type == entry.Upsert:
		v.objects[c.Key] = c.UID + "@" + c.ResourceVersion
	case uid == c.UID:
		delete(v.objects, c.Key)
	}
	return nil
}

func cutVersion(s string) (uid, rv string, ok bool) {
	for i := range s {
		if s[i] == '@' {
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

func (v *durableView) reset(_ context.Context, why consumer.ResetReason) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.resets = append(v.resets, why)
	return nil
}

// begin must be called before the handler is registered with a new informer.
func (v *durableView) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.last)
}

func (v *durableView) stopFailing() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failing = 0
}

func (v *durableView) compare(want map[string]string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	problems := slices.Clone(v.problems)
	if !maps.Equal(v.objects, want) {
		problems = append(problems, fmt.Sprintf("it holds %v, the server %v", v.objects, want))
	}
	if len(v.resets) != 1 {
		problems = append(problems, fmt.Sprintf("resets: %v", v.resets))
	}
	return problems
}

// versions returns uid@resourceVersion of every pod, by key.
func (s *server) versions() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for key, p := range s.pods {
		all[key] = string(p.UID) + "@" + p.ResourceVersion
	}
	return all
}

type durableModel struct {
	*rig
	views  map[string]*durableView
	mutant func(durable.Cursor) durable.Cursor // mutant wraps the handlers' cursors to inject a fault; nil injects none
}

func (m *durableModel) begin() {
	i := m.open()
	if m.mutant != nil {
		informer.WrapCursors(i, m.mutant)
	}
	for _, name := range slices.Sorted(maps.Keys(m.views)) {
		m.views[name].begin()
		if _, err := i.Durable().Add(name, m.views[name].handler()); err != nil {
			m.t.Fatal(err)
		}
	}
	m.run()
}

func (m *durableModel) play(script []durableStep) (problems []string) {
	for _, key := range durableKeys[:3] {
		m.srv.write(key, "x")
	}
	m.begin()
	m.waitIdle()
	for _, step := range script {
		m.do(step)
	}
	for _, v := range m.views {
		v.stopFailing()
	}
	time.Sleep(5 * time.Minute) // longer than any back-off of a handler
	synctest.Wait()
	for name, v := range m.views {
		for _, p := range v.compare(m.srv.versions()) {
			problems = append(problems, name+": "+p)
		}
	}
	m.close()
	return problems
}

func (m *durableModel) do(step durableStep) {
	switch step.kind {
	case "write":
		m.srv.write(step.key, "x")
	case "delete":
		m.srv.delete(step.key)
	case "recreate":
		m.srv.delete(step.key)
		m.srv.write(step.key, "again")
	case "compact":
		m.srv.compact()
	case "restart":
		m.close()
		m.begin()
	case "crash":
		m.crash(step.after)
		return
	}
	time.Sleep(step.after)
	synctest.Wait()
}

// crash kills the process after the given time. The next process starts without uncommitted changes and
// acknowledgements.
func (m *durableModel) crash(after time.Duration) {
	m.srv.write("a/1", "pending")
	m.srv.delete("b/1")
	time.Sleep(after)
	synctest.Wait()
	now, err := os.ReadFile(m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	m.close()
	if err := os.WriteFile(m.path, now, 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.begin()
}

// TestDurableModel checks that durable handlers reach the server's state, lose no delete, and get the changes of each
// key in order, while their calls fail and panic and the process ends at any time.
func TestDurableModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if problems := playDurable(t, rt, nil); len(problems) > 0 {
			rt.Fatalf("%q", problems)
		}
	})
}

func playDurable(t *testing.T, rt *rapid.T, mutant func(durable.Cursor) durable.Cursor) (problems []string) {
	script := drawDurableScript(rt)
	seed := rapid.Uint64().Draw(rt, "seed")
	interval := rapid.SampledFrom([]time.Duration{0, 0, -1}).Draw(rt, "commit")
	synctest.Test(t, func(t *testing.T) {
		m := &durableModel{rig: newRig(t), mutant: mutant, views: map[string]*durableView{
			"steady": newDurableView(seed, 0), "shaky": newDurableView(seed, 0.3), "wretched": newDurableView(seed, 0.8),
		}}
		m.so.CommitInterval = interval
		problems = m.play(script)
	})
	return problems
}

// ackEarly is a faulty cursor that acknowledges a page of changes when the page is read.
type ackEarly struct {
	durable.Cursor
	end uint64
}

func (f *ackEarly) Read(
	ctx context.Context, at consumer.Position,
) (p consumer.Page, next consumer.Position, err error) {
	p, next, err = f.Cursor.Read(ctx, at)
	f.end = p.End
	return p, next, err
}

func (f *ackEarly) Acknowledge(position consumer.Position, resets int) error {
	if !position.Replaying {
		position.Seq, position.Failing = max(position.Seq, f.end), nil
	}
	return f.Cursor.Acknowledge(position, resets)
}

// ackNothingFails is a faulty cursor that forgets the keys whose calls have failed.
type ackNothingFails struct{ durable.Cursor }

func (f ackNothingFails) Acknowledge(position consumer.Position, resets int) error {
	position.Failing = nil
	return f.Cursor.Acknowledge(position, resets)
}

// lastOnly is a faulty cursor that drops all but the last change of each key in a page. So it loses the delete of an
// object that was created again.
type lastOnly struct{ durable.Cursor }

func (f lastOnly) Read(
	ctx context.Context, at consumer.Position,
) (p consumer.Page, next consumer.Position, err error) {
	p, next, err = f.Cursor.Read(ctx, at)
	last := map[string]uint64{}
	for _, c := range p.Changes {
		last[c.Key] = c.Seq
	}
	p.Changes = slices.DeleteFunc(p.Changes, func(c consumer.Change) bool { return last[c.Key] != c.Seq })
	return p, next, err
}

func TestDurableModelCatches(t *testing.T) {
	for name, mutant := range map[string]func(durable.Cursor) durable.Cursor{
		"acknowledged when read":    func(f durable.Cursor) durable.Cursor { return &ackEarly{Cursor: f} },
		"failing keys not stored":   func(f durable.Cursor) durable.Cursor { return ackNothingFails{f} },
		"deletes before a creation": func(f durable.Cursor) durable.Cursor { return lastOnly{f} },
	} {
		t.Run(name, func(t *testing.T) {
			scripts := rapid.Custom(func(rt *rapid.T) int { return len(playDurable(t, rt, mutant)) })
			for seed := range 200 {
				if scripts.Example(seed) > 0 {
					return
				}
			}
			t.Error("nothing was noticed in 200 scripts")
		})
	}
}
