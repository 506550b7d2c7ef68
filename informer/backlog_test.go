package informer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

// TestBacklogOfASlowHandler: it holds a page of the stored objects, not all of them, however much happens meanwhile; it hears of every
// delete, and what it is told in the end leads to what there is.
func TestBacklogOfASlowHandler(t *testing.T) {
	const objects = 3 * backlogObjects
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range objects {
			r.srv.write(fmt.Sprintf("a/%04d", n), "x")
		}
		r.start()
		r.close()
		i := r.open()
		g := newGate()
		slow, quick := &recorder{hook: g.wait}, &recorder{}
		var regs []cache.ResourceEventHandlerRegistration
		for _, h := range []*recorder{slow, quick} {
			reg, err := i.AddEventHandler(h)
			if err != nil {
				t.Fatal(err)
			}
			regs = append(regs, reg)
		}
		r.run()
		synctest.Wait()
		deletes := 0
		for n := range objects { // every object of which the slow handler does not know yet changes, some go
			key := fmt.Sprintf("a/%04d", n)
			switch {
			case n < backlogObjects:
			case n%100 == 3:
				deletes++
				r.srv.delete(key)
			default:
				r.srv.write(key, "y")
			}
		}
		r.srv.write("b/new", "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := i.Status().Handlers[0]; s.Pending >= backlogObjects+2*deletes {
			t.Errorf("%d calls are pending, want less than a page of %d and %d deletes", s.Pending, backlogObjects, deletes)
		}
		if regs[0].HasSynced() || !regs[1].HasSynced() || !i.HasSynced() {
			t.Errorf("synced: slow %t, quick %t, informer %t; want only the slow handler to be behind", regs[0].HasSynced(), regs[1].HasSynced(), i.HasSynced())
		}
		g.release()
		synctest.Wait()
		for n, h := range []*recorder{slow, quick} {
			known := map[string]string{}
			lines := h.take()
			replay(t, known, lines)
			equal(t, fmt.Sprintf("handler %d", n), sortedValues(known), r.srv.state())
			if !regs[n].HasSynced() {
				t.Errorf("handler %d has not synced", n)
			}
			if n == 0 && len(lines) != len(known)+2*deletes {
				t.Errorf("the slow handler got %d calls for %d objects and %d deletes", len(lines), len(known), deletes)
			}
		}
		r.close()
	})
}

// TestBacklogModel: handlers from before the start and late ones, slow and quick, have their own places in small pages while objects come, change and
// go. Whatever each is told fits together and ends in the store's state.
func TestBacklogModel(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t)
			change := func(times int) {
				for range times {
					key := fmt.Sprintf("a/%02d", random.IntN(40))
					if random.IntN(4) == 0 {
						r.srv.delete(key)
					} else {
						r.srv.write(key, fmt.Sprint(random.IntN(1000)))
					}
				}
			}
			change(100)
			r.start()
			r.close()
			change(random.IntN(10))
			i := r.open()
			i.pages.limit = 1 + random.IntN(5)
			var hs []*recorder
			var regs []cache.ResourceEventHandlerRegistration
			add := func() {
				pause := time.Duration(random.IntN(3)) * 100 * time.Millisecond
				h := &recorder{hook: func(string) { time.Sleep(pause) }}
				reg, err := i.AddEventHandler(h)
				if err != nil {
					t.Fatal(err)
				}
				hs, regs = append(hs, h), append(regs, reg)
			}
			add()
			add()
			r.run()
			for range 20 {
				change(random.IntN(8))
				if random.IntN(4) == 0 {
					add()
				}
				if random.IntN(8) == 0 {
					r.srv.compact()
				}
				time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			for n, h := range hs {
				known := map[string]string{}
				replay(t, known, h.take())
				equal(t, fmt.Sprintf("seed %d, handler %d", seed, n), sortedValues(known), r.srv.state())
				if !regs[n].HasSynced() {
					t.Errorf("seed %d: handler %d has not synced", seed, n)
				}
			}
			r.close()
		})
	}
}
