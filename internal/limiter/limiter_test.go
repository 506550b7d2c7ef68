package limiter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var errAway = errors.New("nobody answers")

type peers struct {
	l        *Limiter
	up       atomic.Bool
	attempts atomic.Int32
	live     atomic.Int32
	now, max atomic.Int32 // number of clients that are connecting now, and its maximum so far
	wg       sync.WaitGroup
}

// run simulates a client of package reflector: it tries to connect until the server answers.
func (p *peers) run(ctx context.Context, answers func() bool, takes time.Duration) {
	for {
		slot, err := p.l.Connect(ctx, false, func(error) {})
		if err != nil {
			return
		}
		p.attempts.Add(1)
		for n := p.now.Add(1); n > p.max.Load(); {
			p.max.Store(n)
		}
		wait(ctx, takes)
		p.now.Add(-1)
		if answers() {
			p.l.Received()
			slot.Done()
			p.live.Add(1)
			return
		}
		slot.Failed(errAway)
		slot.Done()
		_, next, recovered := p.l.Down()
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-recovered:
		}
		timer.Stop()
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// TestOneBackOff checks that during an outage all clients together try no more often than a single client. After the
// outage all clients are soon connected, with a limited number of connects at a time.
func TestOneBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peers{l: New()}
		for range 300 {
			p.wg.Go(func() { p.run(t.Context(), p.up.Load, 10*time.Millisecond) })
		}
		time.Sleep(10 * time.Minute)
		// With a mean interval of 15 s, 40 attempts are expected. The limits allow for the random waits.
		if n := p.attempts.Load(); n < 20 || n > 90 || p.max.Load() != 1 {
			t.Errorf("%d attempts in ten minutes, %d at a time", n, p.max.Load())
		}
		p.up.Store(true)
		time.Sleep(BackoffCap + time.Second)
		if p.live.Load() != 300 || p.max.Load() != maxConnects {
			t.Errorf("%d of 300 are live, %d at a time", p.live.Load(), p.max.Load())
		}
		p.wg.Wait()
	})
}

// TestHangingClients checks that two clients that hang for ever do not keep other clients from connecting.
func TestHangingClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peers{l: New()}
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			p.wg.Go(func() { p.run(ctx, func() bool { return false }, 90*time.Second) })
		}
		synctest.Wait()
		for range 50 {
			p.wg.Go(func() { p.run(ctx, p.up.Load, time.Millisecond) })
		}
		time.Sleep(5 * time.Minute)
		p.up.Store(true)
		time.Sleep(3 * time.Minute)
		if n := p.live.Load(); n != 50 {
			t.Errorf("%d of 50 are live", n)
		}
		cancel()
		p.wg.Wait()
	})
}

// TestOneFailure checks that connections that break together count as one failure, and so do attempts that fail
// together.
func TestOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		for range 300 {
			l.Lost(errAway)
			time.Sleep(time.Millisecond)
		}
		if n, _, _ := l.Down(); n != 1 {
			t.Errorf("%d failures, of 300 that broke together", n)
		}
		l.Received()
		var slots []*Slot
		for range maxConnects {
			slot, err := l.Connect(t.Context(), false, nil)
			if err != nil {
				t.Fatal(err)
			}
			slots = append(slots, slot)
		}
		for _, slot := range slots {
			time.Sleep(time.Second)
			slot.Failed(errAway)
			slot.Done()
		}
		if n, _, _ := l.Down(); n != 1 {
			t.Errorf("%d failures, of %d that were under way together", n, maxConnects)
		}
	})
}

// TestFailureWhileDataIsReceived checks that a failed attempt does not mark the link as down if the server has sent
// data since the attempt began.
func TestFailureWhileDataIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		slot, err := l.Connect(t.Context(), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Received()
		slot.Failed(errAway)
		if n, _, _ := l.Down(); n != 0 {
			t.Errorf("%d failures", n)
		}
		slot.Done()
		slot.Done()
		if l.connects.taken != 0 {
			t.Errorf("%d slots are taken", l.connects.taken)
		}
	})
}

// TestOneAPIIsAway checks that the errors of an aggregated API without a server do not delay the clients of other APIs.
// If the server sends no other response, one further client may try after each failure.
func TestOneAPIIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		unavailable := apierrors.NewServiceUnavailable("nobody serves widgets")
		attempt := func(failed bool, err error) (waited time.Duration) {
			begun := time.Now()
			slot, waiting := l.Connect(t.Context(), failed, func(error) {})
			if waiting != nil {
				t.Fatal(waiting)
			}
			waited = time.Since(begun)
			slot.Failed(err)
			slot.Done()
			return waited
		}
		attempt(false, unavailable)
		for range 10 {
			attempt(true, unavailable)
		}
		if waited := attempt(false, unavailable); waited > 0 {
			t.Errorf("another API's client waited for %s", waited)
		}
		if waited := attempt(false, unavailable); waited == 0 {
			t.Error("a third client did not wait, although two have failed")
		}
		attempt(true, unavailable)
		if waited := attempt(false, unavailable); waited > 0 {
			t.Errorf("a client waited for %s after one failed again", waited)
		}
		attempt(true, errAway)
		if waited := attempt(false, errAway); waited == 0 {
			t.Error("a client did not wait, although the server cannot be reached")
		}
	})
}

// TestLists checks the order and the maximum number of concurrent lists. A caller that gives up waiting must block no
// other caller, and must release a slot that was granted meanwhile.
func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		var slots []*Slot
		for range maxLists {
			slot, err := l.List(t.Context(), false, nil)
			if err != nil {
				t.Fatal(err)
			}
			slots = append(slots, slot)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.List(ctx, false, nil); err == nil {
				t.Error("a third list")
			}
		})
		synctest.Wait()
		var got atomic.Bool
		wg.Go(func() {
			slot, err := l.List(t.Context(), false, nil)
			if err != nil {
				t.Error(err)
			}
			got.Store(true)
			slot.Done()
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got.Load() {
			t.Error("a third list")
		}
		slots[0].Done()
		synctest.Wait()
		if !got.Load() {
			t.Error("the slot of a caller that gave up was not granted again")
		}
		slots[1].Done()
		wg.Wait()
		if l.lists.taken != 0 || len(l.lists.queue) != 0 {
			t.Errorf("%d taken, %d wait", l.lists.taken, len(l.lists.queue))
		}
	})
}

func TestNil(t *testing.T) {
	var l *Limiter
	slot, err := l.Connect(t.Context(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	slot.Failed(errAway)
	slot.Done()
	l.Lost(errAway)
	l.Received()
	if n, _, recovered := l.Down(); n != 0 || recovered != nil {
		t.Error("a nil Limiter is down")
	}
}

// TestAFleetSpreads checks that processes that lose their connections together spread their first attempts over the
// first backoff.
func TestAFleetSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var early, late int
		for range 1000 {
			l := New()
			l.Lost(errAway)
			_, next, _ := l.Down()
			switch d := time.Until(next); {
			case d < 0 || d > BackoffBase:
				t.Fatalf("after %v", d)
			case d < BackoffBase/4:
				early++
			case d > BackoffBase*3/4:
				late++
			}
		}
		if early < 150 || early > 350 || late < 150 || late > 350 {
			t.Errorf("of 1,000 %d are in the first quarter and %d in the last", early, late)
		}
	})
}

func TestInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.Lost(errAway) // while the link is down, one client at a time may connect
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				slot, err := l.Connect(t.Context(), false, func(error) {})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				slot.Failed(errAway)
				slot.Done()
			})
			synctest.Wait()
		}
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 5 {
			t.Errorf("in the order %v", order)
		}
	})
}

// TestWaitersReceiveFailures checks that waiters receive the error of a failure during their wait.
func TestWaitersReceiveFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		var slots []*Slot
		for range maxConnects {
			slot, err := l.Connect(t.Context(), false, nil)
			if err != nil {
				t.Fatal(err)
			}
			slot.Connected()
			slots = append(slots, slot)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var received atomic.Int32
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := l.Connect(ctx, false, func(err error) {
					if !errors.Is(err, errAway) {
						t.Errorf("received %v", err)
					}
					received.Add(1)
				})
				if err == nil {
					t.Error("no error of the context")
				}
			})
		}
		synctest.Wait()
		slots[0].Failed(errAway)
		synctest.Wait()
		if received.Load() != 2 {
			t.Errorf("%d of 2 received the failure", received.Load())
		}
		cancel()
		wg.Wait()
	})
}

// TestPatience checks that while the link is down, a second client may try ten seconds after the first client, if that
// client hangs.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.Lost(errAway)
		var got []time.Time
		for range 3 {
			if _, err := l.Connect(t.Context(), false, func(error) {}); err != nil {
				t.Fatal(err)
			}
			got = append(got, time.Now())
		}
		for i, want := range []time.Duration{patience, patience} {
			if d := got[i+1].Sub(got[i]); d != want {
				t.Errorf("attempt %d came %v after the one before", i+1, d)
			}
		}
	})
}
