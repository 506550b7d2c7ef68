package mapper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

func quiet(error) {}

// TestAsksInTurn: while others connect the server is not asked, and what a miss asks does not wait.
func TestAsksInTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		l := begin(t, a, storePath(t), false)
		var slots []*limiter.Slot
		for range 8 {
			slot, err := l.st.Limiter().Connect(t.Context(), false, quiet)
			if err != nil {
				t.Fatal(err)
			}
			slot.Connected()
			slots = append(slots, slot)
		}
		l.run()
		time.Sleep(time.Minute)
		if n := a.asked(); n != 0 {
			t.Errorf("%d requests while there was no turn", n)
		}
		slots[0].Done()
		synctest.Wait()
		if n := a.asked(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		if _, err := l.st.Limiter().Connect(t.Context(), false, quiet); err != nil { // the turn is given back
			t.Error(err)
		}
		l.end()
	})
}

// TestMissNeedsNoTurn: the caller waits, and may be what the others wait for.
func TestMissNeedsNoTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		l := begin(t, a, storePath(t), false)
		for range 8 {
			slot, err := l.st.Limiter().Connect(t.Context(), false, quiet)
			if err != nil {
				t.Fatal(err)
			}
			slot.Connected()
		}
		l.run()
		synctest.Wait()
		l.has("", "Pod", podsAre)
		l.stop() // nobody has given it a turn
		if n := a.asked(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		l.end()
	})
}

// TestOneTries: while the link is down for all, Run is one of those that try in turn; and it goes on at once when any
// of them has been answered.
func TestOneTries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		a.change(func(a *api) { a.err = errDown })
		l := begin(t, a, storePath(t), true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		others := 0
		go func() { // an informer, say
			defer close(ended)
			for {
				slot, err := l.st.Limiter().Connect(ctx, false, quiet)
				if err != nil {
					return
				}
				others++
				slot.Failed(errDown)
				slot.Done()
			}
		}()
		time.Sleep(30 * time.Minute)
		cancel()
		<-ended
		ours := a.asked()
		// Alone each of them tries every 15 s in the mean, which is 120 times.
		if tries := ours + others; tries > 180 || ours < 20 || others < 20 {
			t.Errorf("%d tries, and %d of others", ours, others)
		}
		a.change(func(a *api) { a.err, a.requests = nil, 0 })
		l.st.Limiter().Heard()
		synctest.Wait()
		if n := a.asked(); n != 2 {
			t.Errorf("%d requests when the server was heard, want 2", n)
		}
		l.end()
	})
}

// TestAFleetComesBack: the Runs of many processes do not ask at once when their server is there again.
func TestAFleetComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const fleet = 40
		a := newAPI()
		a.change(func(a *api) { a.err = errDown })
		var all []*life
		for range fleet {
			all = append(all, begin(t, a, storePath(t), true))
		}
		time.Sleep(10 * time.Minute)
		a.change(func(a *api) { a.err, a.requests = nil, 0 })
		most, before := 0, 0
		for range 120 {
			time.Sleep(time.Second)
			n := a.asked()
			most, before = max(most, n-before), n
		}
		if most > fleet*2/3 || before != 2*fleet { // a process that is answered makes two requests
			t.Errorf("%d requests in a second, %d in all", most, before)
		}
		for _, l := range all {
			l.end()
		}
	})
}

// TestAnAnswerIsHeard: what the server says to the mapper ends the wait of the others, if it is the server that says
// it.
func TestAnAnswerIsHeard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		a.change(func(a *api) { a.err = errDown })
		l := begin(t, a, storePath(t), true)
		for range 3 { // misses report no failure: they have no turn
			if _, err := l.scope("", "Pod"); !errors.Is(err, ErrUnreachable) {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if failures, _, _ := l.st.Limiter().Down(); failures == 0 {
			t.Error("nobody else knows that the link is down")
		}
		a.change(func(a *api) { a.err = nil })
		time.Sleep(time.Minute)
		if failures, _, _ := l.st.Limiter().Down(); failures != 0 {
			t.Errorf("%d failures, and the server has answered", failures)
		}
		l.end()
	})
}
