package informer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
)

// TestBacklogOfASlowHandler checks that a slow handler's queue holds one page of the stored objects and the later
// changes, not all objects.
func TestBacklogOfASlowHandler(t *testing.T) {
	const objects = 3 * backlogObjects
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		var stored, changes []string
		for n := range objects {
			stored = append(stored, "add "+describe(r.srv.write(fmt.Sprintf("a/%04d", n), "x"))+" initial")
		}
		r.start()
		r.close()
		r.srv.takeLog()
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
		for n := 0; n < objects; n += 20 {
			key := fmt.Sprintf("a/%04d", n)
			if n%100 == 40 {
				r.srv.delete(key)
			} else {
				r.srv.write(key, "y")
			}
		}
		r.srv.write("b/new", "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		changes = r.srv.takeLog()
		if s := i.Status().Handlers[0]; s.Pending >= backlogObjects+len(changes) {
			t.Errorf("%d calls are pending, want less than a page of %d and %d changes", s.Pending, backlogObjects, len(changes))
		}
		if regs[0].HasSynced() || !regs[1].HasSynced() || !i.HasSynced() {
			t.Errorf("synced: slow %t, quick %t, informer %t; want only the slow handler to be behind", regs[0].HasSynced(),
				regs[1].HasSynced(), i.HasSynced())
		}
		g.release()
		synctest.Wait()
		for n, h := range []*recorder{slow, quick} {
			equal(t, fmt.Sprintf("handler %d", n), h.take(), append(slices.Clone(stored), changes...))
			if !regs[n].HasSynced() {
				t.Errorf("handler %d has not synced", n)
			}
		}
		r.close()
	})
}

// TestBacklogModel adds slow and quick handlers while objects change, with small pages. Each handler's calls must be
// consistent and end in the store's state.
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
			informer.SetPages(i, 1+random.IntN(5))
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
