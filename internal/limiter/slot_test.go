package limiter

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSilentSlots checks that a slot whose request has had no response for 250 ms does not count until the response
// begins. At most 64 slots may not count (kubernetes#101078, issue 38).
func TestSilentSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		var mu sync.Mutex
		var slots []*Slot
		var answers []func()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				slot, err := l.List(t.Context(), false, nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				slots, answers = append(slots, slot), append(answers, slot.Await())
			})
		}
		granted := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(slots)
		}
		if n := granted(); n != maxLists {
			t.Errorf("%d at once", n)
		}
		time.Sleep(silence - time.Millisecond)
		if n := granted(); n != maxLists {
			t.Errorf("%d before the time", n)
		}
		time.Sleep(time.Millisecond)
		if n := granted(); n != 2*maxLists {
			t.Errorf("%d after the time", n)
		}
		time.Sleep(time.Minute)
		if n := granted(); n != maxLists+maxSilent {
			t.Errorf("%d in the end", n)
		}
		// The slots of requests that receive a response count. Two other overdue slots stop counting instead.
		answers[0]()
		answers[1]()
		answers[1]()
		time.Sleep(time.Second)
		if n := granted(); n != maxLists+maxSilent || l.lists.taken != maxLists {
			t.Errorf("%d when two were answered, %d of them count", n, l.lists.taken)
		}
		for n := 0; n < 100; n++ {
			synctest.Wait()
			mu.Lock()
			slot, answered := slots[n], answers[n]
			mu.Unlock()
			if n%2 == 0 {
				answered()
			}
			slot.Done()
			slot.Done()
			answered()
		}
		wg.Wait()
		if l.lists.taken != 0 || l.lists.silent != 0 {
			t.Errorf("%d are taken, %d are silent", l.lists.taken, l.lists.silent)
		}
	})
}

// TestTwoRequestsInASlot checks that a slot counts again only when the last of its overdue requests has a response.
func TestTwoRequestsInASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		slot, err := l.Connect(t.Context(), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		slot.Connected()
		first, second := slot.Await(), slot.Await()
		time.Sleep(time.Second)
		first()
		if l.connects.taken != 0 || l.connects.silent != 1 {
			t.Errorf("%d are taken, %d are silent", l.connects.taken, l.connects.silent)
		}
		second()
		if l.connects.taken != 1 || l.connects.silent != 0 {
			t.Errorf("%d are taken, %d are silent", l.connects.taken, l.connects.silent)
		}
		third := slot.Await()
		third()
		time.Sleep(time.Second)
		if l.connects.taken != 1 {
			t.Errorf("%d are taken", l.connects.taken)
		}
		slot.Done()
	})
}

// TestOneConnectsFirst checks that one client connects alone until it has a network connection, at the start and after
// connections were lost. A client that hangs must block the others for only ten seconds.
func TestOneConnectsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		granted := make(chan *Slot, 100)
		connect := func(n int) {
			for range n {
				go func() {
					slot, err := l.Connect(t.Context(), false, func(error) {})
					if err != nil {
						t.Error(err)
					}
					granted <- slot
				}()
			}
		}
		among := func(what string, want int) (slots []*Slot) {
			t.Helper()
			synctest.Wait()
			for range len(granted) {
				slots = append(slots, <-granted)
			}
			if len(slots) != want {
				t.Errorf("%s: %d connect, want %d", what, len(slots), want)
			}
			return slots
		}
		done := func(slots ...*Slot) {
			for _, slot := range slots {
				slot.Done()
			}
		}
		connect(4)
		first := among("at the start", 1)
		first[0].Connected()
		done(append(among("once it has a connection", 3), first...)...)
		connect(4)
		done(among("while there is a connection", 4)...)

		l.Ended()
		connect(3)
		hangs := among("after the watches ended", 1)
		hangs[0].Connecting()
		answered := hangs[0].Await()
		time.Sleep(patience - time.Millisecond)
		among("while it waits for a connection", 0)
		time.Sleep(silence)
		second := among("after ten seconds", 1)
		answered()
		done(second...)
		done(append(among("once the second has come and gone", 1), hangs...)...)

		l.Ended()
		connect(3)
		first = among("after the watches ended once more", 1)
		time.Sleep(silence)
		done(append(among("after 250 ms without a request", 2), first...)...)

		l.Ended()
		connect(3)
		first = among("and once more", 1)
		first[0].Await() // the slot's owner makes a request but never calls Connecting
		time.Sleep(silence)
		done(append(among("after 250 ms without a connection that is reported", 2), first...)...)

		connect(1)
		hangs = among("one that makes no request, and reports nothing", 1)
		time.Sleep(time.Second)
		l.Ended()
		connect(3)
		done(append(among("when a watch ends while it connects", 3), hangs...)...)

		l.Lost(errAway)
		connect(3)
		time.Sleep(BackoffBase)
		first = among("while the link is down", 1)
		l.Received()
		done(append(among("once it is up", 2), first...)...)
	})
}

func TestFailedWaitBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		var held []*Slot
		for range maxLists {
			slot, err := l.List(t.Context(), false, nil)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, slot)
		}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for _, name := range []string{"failed 1", "failed 2", "new 1", "failed 3", "new 2"} {
			wg.Go(func() {
				slot, err := l.List(t.Context(), name[0] == 'f', nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				slot.Done()
			})
			synctest.Wait()
		}
		held[0].Done()
		wg.Wait()
		held[1].Done()
		if want := []string{"new 1", "new 2", "failed 1", "failed 2", "failed 3"}; !slices.Equal(order, want) {
			t.Errorf("in the order %q, want %q", order, want)
		}
	})
}
