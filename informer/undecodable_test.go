package informer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/larder-dev/larder/reflector"
)

// TestReaderFindsUndecodableObject checks that an object that its Go type cannot decode is reported, causes one list,
// and is then no longer stored: neither reads nor its events cause further lists. It returns once it can be decoded.
func TestReaderFindsUndecodableObject(t *testing.T) {
	for name, spec := range map[string]string{"does not fit": `{"seats":"secret"}`, "panics": `{"color":"panics"}`} {
		t.Run(name, func(t *testing.T) { bubble(t, func(t *testing.T) { testReaderFinds(t, spec) }) })
	}
}

func testReaderFinds(t *testing.T, bad string) {
	h := newHarbor(t)
	h.srv.write("good", `{"seats":1}`)
	h.srv.write("bad", bad)
	h.start()
	h.reads(1, "good")
	h.waitIdle(time.Minute)
	h.leftOut("a/bad")
	lists := func(want int) {
		t.Helper()
		if got, _ := h.srv.requests(); got != want {
			t.Errorf("%d lists, want %d: %v", got, want, h.i.Status().Reflector.Relists)
		}
	}
	lists(2)
	h.logged("a/bad", "boats.v1.sea", "spec.")
	h.reads(30, "good")
	for n := range 10 {
		h.srv.write("bad", bad)
		h.srv.write("good", fmt.Sprintf(`{"seats":%d}`, n))
		h.reads(1, "good")
	}
	lists(2)
	s := h.i.Status()
	if s.Err != nil || s.Objects != 1 || s.Reflector.Relists[reflector.ReasonUnreadable] != 1 {
		t.Errorf("status %+v", s)
	}
	h.end()

	h.start()
	h.leftOut("a/bad")
	h.reads(3, "good")
	lists(2)
	h.srv.write("bad", `{"seats":7}`)
	h.waitIdle(time.Second)
	h.reads(1, "bad", "good")
	h.leftOut()
	h.srv.write("bad", "")
	h.waitIdle(time.Second)
	h.reads(1, "good")
	lists(2)
	h.end()
}

// TestUndecodableEvent checks an informer with a label selector, which decodes objects on receipt. An event whose
// object cannot be decoded causes one list with a reason of its own, and does not affect other objects.
func TestUndecodableEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHarbor(t)
		h.o.Identity.LabelSelector = "l=m"
		h.srv.write("good", `{"seats":1}`)
		h.start()
		const bad = `{"seats":"secret"}`
		h.srv.write("bad", bad)
		h.srv.write("later", `{"seats":2}`)
		h.waitIdle(5 * time.Minute)
		h.reads(2, "good", "later")
		h.leftOut("a/bad")
		h.logged("a/bad", "boats.v1.sea", "spec.seats")
		for n := range 10 {
			h.srv.write("bad", bad)
			h.srv.write("later", fmt.Sprintf(`{"seats":%d}`, n))
			h.waitIdle(time.Minute)
		}
		s := h.i.Status()
		if s.Reflector.Relists[reflector.ReasonBadEvent] != 1 || len(s.Reflector.Relists) != 1 || !s.Synced || s.Err != nil {
			t.Errorf("relists %v, error %v", s.Reflector.Relists, s.Err)
		}
		h.srv.write("bad", `{"seats":3}`)
		h.waitIdle(time.Minute)
		h.reads(1, "bad", "good", "later")
		h.leftOut()
		h.end()
	})
}
