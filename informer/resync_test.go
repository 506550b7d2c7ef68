package informer

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

// TestResync: updates without a change reach the handlers that asked for them, when they are due.
func TestResync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ResyncPeriod = 10 * time.Second
		r.srv.write("a/1", "x")
		i := r.open()
		hs := map[time.Duration]*recorder{0: {}, 10 * time.Second: {}, 20 * time.Second: {}, 2 * time.Second: {}}
		for period, h := range hs {
			if _, err := i.AddEventHandlerWithResyncPeriod(h, period); err != nil {
				t.Fatal(err)
			}
		}
		r.run()
		for _, h := range hs {
			h.take()
		}
		time.Sleep(41 * time.Second)
		synctest.Wait()
		for period, want := range map[time.Duration]int{0: 0, 2 * time.Second: 20, 10 * time.Second: 4, 20 * time.Second: 2} {
			got := hs[period].take()
			if len(got) != want {
				t.Errorf("period %v: %d resyncs in 41 s, want %d", period, len(got), want)
			}
			for _, line := range got {
				if line != "update a/1@101=x to a/1@101=x" {
					t.Errorf("period %v: %q", period, line)
				}
			}
		}
		r.close()
	})
}

func TestResyncPeriods(t *testing.T) {
	type result struct{ requested, effective, check time.Duration }
	for _, tc := range []struct {
		name           string
		check, request time.Duration
		started        bool
		want           result
	}{
		{"none", 0, 0, false, result{0, 0, 0}},
		{"no resyncs in this informer", 0, time.Minute, true, result{0, 0, 0}},
		{"no resyncs yet", 0, time.Minute, false, result{time.Minute, 0, 0}},
		{"longer", time.Minute, time.Hour, false, result{time.Hour, time.Hour, time.Minute}},
		{"shorter, before the start", time.Minute, 10 * time.Second, false, result{10 * time.Second, 10 * time.Second, 10 * time.Second}},
		{"shorter, after the start", time.Minute, 10 * time.Second, true, result{time.Minute, time.Minute, time.Minute}},
		{"below the minimum", time.Minute, time.Millisecond, false, result{time.Second, time.Second, time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := &Informer{resyncCheckPeriod: tc.check, started: tc.started, clock: realClock}
			l := newListener(&recorder{}, discard, realClock, doneNow{})
			silent := func(string, ...any) {}
			i.mu.Lock()
			defer i.mu.Unlock()
			l.requestedResync = i.requestedResyncLocked(silent, tc.request)
			got := result{l.requestedResync, effectiveResync(silent, l.requestedResync, i.resyncCheckPeriod), i.resyncCheckPeriod}
			if tc.check == 0 && tc.request > 0 {
				// client-go: a check period of zero is "smaller" than any, so the request stands and has no effect.
				tc.want = result{tc.request, 0, 0}
			}
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestResyncPeriodOfEarlierHandlers: a later handler with a short period lets an earlier one have what it asked for.
func TestResyncPeriodOfEarlierHandlers(t *testing.T) {
	i := &Informer{o: Options{ResyncPeriod: 30 * time.Second}, resyncCheckPeriod: 30 * time.Second, clock: realClock, synced: make(chan struct{})}
	regs := []cache.ResourceEventHandlerRegistration{}
	for _, p := range []time.Duration{45 * time.Second, 20 * time.Second, 40 * time.Second, 5 * time.Second} {
		reg, err := i.AddEventHandlerWithResyncPeriod(&recorder{}, p)
		if err != nil {
			t.Fatal(err)
		}
		regs = append(regs, reg)
	}
	for n, want := range []time.Duration{45 * time.Second, 20 * time.Second, 40 * time.Second, 5 * time.Second} {
		if got := regs[n].(*listener).resyncPeriod; got != want {
			t.Errorf("handler %d: %v, want %v", n, got, want)
		}
	}
	if i.resyncCheckPeriod != 5*time.Second {
		t.Errorf("check period %v", i.resyncCheckPeriod)
	}
}

// TestSameVersion: an update that keeps the resourceVersion reaches only handlers that are resyncing.
func TestSameVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		h := &recorder{}
		i := r.start(h)
		h.take()
		time.Sleep(time.Second)
		i.processor.resyncDue(i.clock.Now()) // nobody wants resyncs: from now on nobody takes part
		r.srv.mu.Lock()
		for w := range r.srv.watches {
			w.send(watchModified(r.srv.pods["a/1"]))
		}
		r.srv.mu.Unlock()
		synctest.Wait()
		equal(t, "handler", h.take(), nil)
		r.close()
	})
}
