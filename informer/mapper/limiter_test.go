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

// TestRunWaitsForLimiter checks that Run sends no request while all slots of the connection limiter are in use.
func TestRunWaitsForLimiter(t *testing.T) {
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
			t.Errorf("%d requests without a slot", n)
		}
		slots[0].Done()
		synctest.Wait()
		if n := a.asked(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		// Connect succeeds only if Run has returned its slot.
		if _, err := l.st.Limiter().Connect(t.Context(), false, quiet); err != nil {
			t.Error(err)
		}
		l.end()
	})
}

// TestMissBypassesLimiter checks that a query for an unknown kind waits for no slot of the connection limiter: the
// slots' holders may themselves wait for the caller of this query.
func TestMissBypassesLimiter(t *testing.T) {
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
		l.stop()
		if n := a.asked(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		l.end()
	})
}

// TestRunSharesRetries checks that, while the server is unreachable, Run takes turns with other clients of the
// connection limiter. It sends its request as soon as one of them has received data.
func TestRunSharesRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		a.change(func(a *api) { a.err = errDown })
		l := begin(t, a, storePath(t), true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		others := 0
		go func() {
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
		// Each of the two clients alone would try every 15 seconds on average, 120 times in all.
		if tries := ours + others; tries > 180 || ours < 20 || others < 20 {
			t.Errorf("%d tries, and %d of others", ours, others)
		}
		a.change(func(a *api) { a.err, a.requests = nil, 0 })
		l.st.Limiter().Received()
		synctest.Wait()
		if n := a.asked(); n != 2 {
			t.Errorf("%d requests after data was received, want 2", n)
		}
		l.end()
	})
}

// TestFleetSpreadsRequests checks that the mappers of many processes do not all send their requests at once when the
// server is back.
func TestFleetSpreadsRequests(t *testing.T) {
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
		if most > fleet*2/3 || before != 2*fleet {
			t.Errorf("%d requests in a second, %d in all", most, before)
		}
		for _, l := range all {
			l.end()
		}
	})
}

// TestAnswerEndsBackoff checks that an answer to the mapper ends the back-off of the connection limiter's other
// clients.
func TestAnswerEndsBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		a.change(func(a *api) { a.err = errDown })
		l := begin(t, a, storePath(t), true)
		for range 3 { // these queries have no slot of the limiter, so they do not report their failures to it
			if _, err := l.scope("", "Pod"); !errors.Is(err, ErrUnreachable) {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if failures, _, _ := l.st.Limiter().Down(); failures == 0 {
			t.Error("the limiter is not down")
		}
		a.change(func(a *api) { a.err = nil })
		time.Sleep(time.Minute)
		if failures, _, _ := l.st.Limiter().Down(); failures != 0 {
			t.Errorf("%d failures, and the server has answered", failures)
		}
		l.end()
	})
}
