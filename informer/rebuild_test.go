package informer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// TestLossesElsewhere: another informer's rebuild has lost objects of ours. The next event makes us list, once.
func TestLossesElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/0", "x")
		i := r.open()
		losses := 3 // from before this informer was made: they have been mended
		i.losses = func() int { return losses }
		r.run(&recorder{})
		synctest.Wait()
		losses++
		r.srv.write("a/0", "y")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.srv.write("a/0", "z")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s := i.Status().Reflector
		if s.Relists[reflector.ReasonStore] != 1 || len(s.Relists) != 1 {
			t.Errorf("relists: %v, want one for %s", s.Relists, reflector.ReasonStore)
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestListLost: another informer's rebuild has lost a part of the list that we were taking in. It is given up and made again.
func TestListLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 4 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		i := r.open()
		f := &faultyStore{Interface: i.store, skip: 1} // BeginReplace succeeds, the first page fails
		i.store = f
		f.set(fmt.Errorf("page: %w", store.ErrReplaceLost), 1, false)
		h := &recorder{}
		r.run(h)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if !i.HasSynced() {
			t.Error("not synced")
		}
		if n := i.Status().Reflector.Relists[reflector.ReasonStore]; n != 1 || f.failed() != 1 {
			t.Errorf("%d relists after %d failures", n, f.failed())
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}
