package informer_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/internal/delivery/deliverytest"
)

// gate is a handler hook that blocks calls.
type gate struct {
	permits chan struct{}
	open    sync.Once
}

func newGate() *gate { return &gate{permits: make(chan struct{})} }

func (g *gate) wait(string) { <-g.permits }

// pass lets n blocked calls return, and then waits until all goroutines of the bubble are blocked.
func (g *gate) pass(n int) {
	for range n {
		g.permits <- struct{}{}
	}
	synctest.Wait()
}

// release lets all current and later calls of the handler return.
func (g *gate) release() {
	g.open.Do(func() { close(g.permits) })
	synctest.Wait()
}

func byKey(lines []string) map[string][]deliverytest.Call {
	out := map[string][]deliverytest.Call{}
	for _, line := range lines {
		f := strings.Fields(line)
		var n deliverytest.Call
		switch f[0] {
		case "add":
			n.Type, n.New, n.Initial = cache.Added, f[1], strings.HasSuffix(line, " initial")
		case "update":
			n.Type, n.Old, n.New = cache.Updated, f[1], f[3]
		default:
			n.Type, n.Old = cache.Deleted, line
		}
		out[keyIn(f[1])] = append(out[keyIn(f[1])], n)
	}
	return out
}

func legal(t *testing.T, happened, delivered []string) {
	t.Helper()
	did, received := byKey(happened), byKey(delivered)
	for key := range received {
		if did[key] == nil {
			t.Errorf("%s: nothing happened, but the handler received %v", key, received[key])
		}
	}
	for key, n := range did {
		if err := deliverytest.LegalMerging(n, received[key]); err != nil {
			t.Errorf("%s: %v\nhappened  %v\ndelivered %v", key, err, n, received[key])
		}
	}
}

// TestBlockedHandler checks that a blocked handler gets merged updates, and that another handler gets each change.
func TestBlockedHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate()
		blocked, free := &recorder{hook: g.wait}, &recorder{}
		i := r.start(blocked, free)
		random := rand.New(rand.NewPCG(1, 2))
		for n := range 6000 {
			key := fmt.Sprintf("a/%02d", random.IntN(50))
			if random.IntN(50) == 0 {
				r.srv.delete(key)
			} else {
				r.srv.write(key, fmt.Sprint(n))
			}
			if n%500 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		happened := r.srv.takeLog()
		equal(t, "the other handler", free.take(), happened)
		if !slices.Equal(r.stored(), r.srv.state()) {
			t.Error("the blocked handler holds up the store")
		}
		deletes := 0
		for _, line := range happened {
			if strings.HasPrefix(line, "delete") {
				deletes++
			}
		}
		s := i.Status().Handlers[0]
		if bound := mergeThreshold + 2*50 + 3*deletes; s.Pending > bound || s.Pending < mergeThreshold {
			t.Errorf("%d calls are pending, want %d to %d", s.Pending, mergeThreshold, bound)
		}
		if s.Merged == 0 || s.Pending+s.Merged+1 != len(happened) {
			t.Errorf("%d pending, %d merged, 1 being made; %d happened", s.Pending, s.Merged, len(happened))
		}
		g.release()
		delivered := blocked.take()
		if len(delivered) != s.Pending+1 {
			t.Errorf("%d calls were made, want %d", len(delivered), s.Pending+1)
		}
		legal(t, happened, delivered)
		known := map[string]string{}
		replay(t, known, delivered)
		equal(t, "final state", sortedValues(known), r.srv.state())

		for n := range 100 {
			r.srv.write("a/00", fmt.Sprint(n))
		}
		synctest.Wait()
		equal(t, "after it has caught up", blocked.take(), r.srv.takeLog())
		r.close()
	})
}

func TestResyncsMerge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ResyncPeriod = 10 * time.Second
		for n := range mergeThreshold + 100 {
			r.srv.write(fmt.Sprintf("a/%04d", n), "x")
		}
		g := newGate()
		h := &recorder{hook: g.wait}
		i := r.start(h)
		for n := range 60 {
			time.Sleep(10 * time.Second)
			r.srv.write(fmt.Sprintf("a/%04d", n), "y")
		}
		synctest.Wait()
		if p := i.Status().Handlers[0].Pending; p > 2*(mergeThreshold+100) {
			t.Errorf("%d calls are pending for %d objects", p, mergeThreshold+100)
		}
		g.release()
		lines := h.take()
		known := map[string]string{}
		replay(t, known, lines)
		equal(t, "final state", sortedValues(known), r.srv.state())
		updates := map[string]int{}
		for _, line := range lines {
			if f := strings.Fields(line); f[0] == "update" && f[1] != f[3] {
				updates[keyIn(f[1])]++
			}
		}
		if len(updates) != 60 {
			t.Errorf("changes of %d objects were received, want 60", len(updates))
		}
		r.close()
	})
}

// behindInFirstSync starts an informer on a file with 60 objects. 50 of them were changed 30 times while no informer
// ran, and are changed once more after the sync. From the merge threshold on, the changes of each object merge into one
// call. calls and merged are the expected numbers of calls and merged updates.
func behindInFirstSync(r *rig, h *recorder) (reg cache.ResourceEventHandlerRegistration, calls, merged int) {
	const n = 60
	for k := range n {
		r.srv.write(fmt.Sprintf("a/%04d", k), "x")
	}
	r.start()
	r.close()
	r.srv.takeLog()
	change := func(value int) {
		for k := range 50 {
			r.srv.write(fmt.Sprintf("a/%04d", k), fmt.Sprint(value))
		}
	}
	for value := range 30 {
		change(value)
	}
	i := r.open()
	reg, err := i.AddEventHandler(h)
	if err != nil {
		r.t.Fatal(err)
	}
	r.run()
	time.Sleep(10 * time.Second)
	if !i.HasSynced() {
		r.t.Fatal("a handler holds up the informer")
	}
	change(30)
	synctest.Wait()
	return reg, n + mergeThreshold + 50, 31*50 - mergeThreshold - 50
}

// TestFirstSyncMerges checks that a registration syncs when the last call of its first sync has returned, even if that
// call merges events that are later than the sync.
func TestFirstSyncMerges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate()
		h := &recorder{hook: g.wait}
		reg, calls, merged := behindInFirstSync(r, h)
		if s := r.i.Status().Handlers[0]; s.Pending != calls-1 || s.Merged != merged {
			t.Errorf("%d pending, %d merged; want %d and %d", s.Pending, s.Merged, calls-1, merged)
		}
		g.pass(calls - 1)
		if reg.HasSynced() {
			t.Error("synced before the last call has returned")
		}
		g.pass(1)
		if !reg.HasSynced() {
			t.Error("not synced after the last call has returned")
		}
		if n := len(h.take()); n != calls {
			t.Errorf("%d calls, want %d", n, calls)
		}
		r.close()
	})
}

// TestFirstSyncMergesAndPanics checks that the registration never syncs (kubernetes#129024), and that later calls are
// made.
func TestFirstSyncMergesAndPanics(t *testing.T) {
	survivePanics(t)
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate()
		h := &recorder{hook: func(line string) {
			g.wait(line)
			if strings.HasPrefix(line, "update a/0007") {
				panic("from the test")
			}
		}}
		reg, calls, _ := behindInFirstSync(r, h)
		g.release()
		time.Sleep(time.Duration(calls) * crashPause)
		synctest.Wait()
		if reg.HasSynced() {
			t.Error("the registration has synced although a call of the first sync was lost")
		}
		known := map[string]string{}
		replay(t, known, h.take())
		equal(t, "final state", sortedValues(known), r.srv.state())
		r.close()
	})
}

// TestBehindIsLogged checks that a handler at the merge threshold is logged once in ten minutes, and once more when its
// queue is empty. Calls for the objects stored at the start do not count.
func TestBehindIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range mergeThreshold {
			r.srv.write(fmt.Sprintf("a/%04d", n), "x")
		}
		var mu sync.Mutex
		var lines []string
		take := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { lines = nil }()
			return lines
		}
		logger := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, args)
		}, funcr.Options{})
		g := newGate()
		i := r.open()
		if _, err := i.AddEventHandlerWithOptions(&recorder{hook: g.wait},
			cache.HandlerOptions{Logger: &logger}); err != nil {
			t.Fatal(err)
		}
		r.run()
		equal(t, "at the start", take(), nil)
		behind := func(pending, merged int) []string {
			return []string{
				fmt.Sprintf(
					`"level"=0 "msg"="Event handler is behind; updates of one object are merged until it has caught up"`+
						` "handler"="github.com/larder-dev/larder/informer_test.recorder" "informer"="SharedIndexInformer *v1.Pod" "pending"=%d "merged"=%d`, pending, merged)}
		}
		write := func(n int) {
			for value := range n {
				r.srv.write("a/0000", fmt.Sprint(value))
			}
		}
		write(1)
		equal(t, "when it falls behind", take(), behind(mergeThreshold, 0))
		write(2)
		equal(t, "just after", take(), nil)
		time.Sleep(lagInterval)
		write(1)
		equal(t, "much later", take(), behind(mergeThreshold+1, 2))
		g.release()
		equal(t, "when it has caught up", take(), []string{
			`"level"=0 "msg"="Event handler has caught up" "handler"="github.com/larder-dev/larder/informer_test.recorder" "informer"="SharedIndexInformer *v1.Pod" "merged"=2`,
		})
		write(1)
		equal(t, "when all is well", take(), nil)
		r.close()
	})
}

func TestStatusOfHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		var regs []cache.ResourceEventHandlerRegistration
		named := map[string]cache.ResourceEventHandler{"github.com/larder-dev/larder/informer_test.recorder": &recorder{},
			"cache.ResourceEventHandlerFuncs": cache.ResourceEventHandlerFuncs{}}
		want := slices.Sorted(maps.Keys(named))
		for _, name := range want {
			reg, err := i.AddEventHandler(named[name])
			if err != nil {
				t.Fatal(err)
			}
			regs = append(regs, reg)
		}
		names := func() (out []string) {
			for _, s := range i.Status().Handlers {
				out = append(out, s.Name)
			}
			return out
		}
		equal(t, "before the start", names(), want)
		r.run()
		equal(t, "running", names(), want)
		if err := i.RemoveEventHandler(regs[0]); err != nil {
			t.Fatal(err)
		}
		equal(t, "one removed", names(), want[1:])
		r.close()
		equal(t, "after the run", names(), nil)
	})
}

func TestRemovedHandlerHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		g := newGate()
		i := r.open()
		reg, err := i.AddEventHandler(&recorder{hook: g.wait})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		for n := range 3000 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		synctest.Wait()
		if s, _ := informer.StatusOf(reg); s.Pending != 2999 {
			t.Errorf("%d pending, want 2999", s.Pending)
		}
		if err := i.RemoveEventHandler(reg); err != nil {
			t.Fatal(err)
		}
		r.srv.write("a/x", "x")
		synctest.Wait()
		if s, _ := informer.StatusOf(reg); s.Pending != 0 {
			t.Errorf("%d pending after it was removed", s.Pending)
		}
		g.release()
		r.close()
	})
}
