package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
)

func TestColdStartThenResume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.PageSize = 2
		for _, key := range []string{"a/1", "a/2", "b/1"} {
			r.srv.write(key, "x")
		}
		h := &recorder{}
		i := r.start(h)
		equal(t, "cold start", h.take(), []string{"add a/1@101=x initial", "add a/2@102=x initial", "add b/1@103=x initial"})
		if !i.HasSynced() {
			t.Fatal("not synced after the list")
		}
		r.srv.write("a/3", "x")
		r.srv.write("a/1", "y")
		r.srv.delete("a/2")
		synctest.Wait()
		equal(t, "watch", h.take(), []string{"add a/3@104=x", "update a/1@101=x to a/1@105=y", "delete a/2@106=x"})
		equal(t, "store", r.stored(), r.srv.state())
		if rv := i.GetStore().LastStoreSyncResourceVersion(); rv != "106" || i.LastSyncResourceVersion() != "106" {
			t.Errorf("stored resourceVersion %s, received %s, want 106", rv, i.LastSyncResourceVersion())
		}
		r.close()

		r.srv.write("a/1", "z")
		r.srv.write("c/1", "x")
		r.srv.delete("b/1")
		lists, _ := r.srv.requests()
		h = &recorder{}
		i = r.start(h)
		equal(t, "restart", h.take(), []string{
			"add a/1@105=y initial", "add a/3@104=x initial", "add b/1@103=x initial",
			"update a/1@105=y to a/1@107=z", "add c/1@108=x initial", "delete b/1@109=x",
		})
		now, watches := r.srv.requests()
		if now != lists {
			t.Errorf("%d LISTs at the restart", now-lists)
		}
		if len(watches) == 0 || watches[0] != "106" {
			t.Errorf("watched from %v, want 106 first", watches)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := i.Status(); !s.Synced || s.Source != informer.Live || s.Reflector.Resumes == 0 || s.Err != nil {
			t.Errorf("after the resume: %+v", s)
		}
		r.srv.write("d/1", "x")
		synctest.Wait()
		equal(t, "after the drain", h.take(), []string{"add d/1@110=x"})
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestRelistReportsTheDifference checks that after an expired watch handlers get only the differences between the store
// and the list. A deleted object is delivered with its last known state.
func TestRelistReportsTheDifference(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.PageSize = 2
		for _, key := range []string{"a/1", "a/2", "a/3", "b/1"} {
			r.srv.write(key, "x")
		}
		r.start()
		r.close()
		r.srv.write("a/1", "y")
		r.srv.delete("a/2")
		r.srv.write("a/4", "x")
		r.srv.compact()

		h := &recorder{}
		i := r.start(h)
		equal(t, "events", h.take(), []string{
			"add a/1@101=x initial", "add a/2@102=x initial", "add a/3@103=x initial", "add b/1@104=x initial",
			"gone a/2 last a/2@102=x", "update a/1@101=x to a/1@105=y", "add a/4@107=x initial",
		})
		equal(t, "store", r.stored(), r.srv.state())
		if s := i.Status(); s.Reflector.LastRelist != reflector.ReasonExpired || !s.Synced {
			t.Errorf("status: %+v", s)
		}

		r.srv.delete("b/1")
		r.srv.write("a/5", "x")
		r.srv.compact() // this ends the watch too, which may or may not have sent the events above
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store after a second loss of history", r.stored(), r.srv.state())
		r.close()
	})
}

func refuse(string, metav1.ListOptions) error { return apierrors.NewServiceUnavailable("down") }

func TestNoContactOffline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.start()
		contact := time.Now()
		r.close()
		r.srv.setFail(refuse)
		time.Sleep(time.Hour)
		i := r.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		if at := i.Status().LastContact; !at.Equal(contact) {
			t.Errorf("last contact %v before now, want %v", time.Since(at), time.Since(contact))
		}
		r.close()
	})
}

func TestSyncPolicies(t *testing.T) {
	type outcome struct {
		synced bool
		source informer.Source
		seen   int
	}
	for _, tc := range []struct {
		name   string
		policy informer.SyncPolicy
		stored bool
		want   outcome
	}{
		{"Resumed, offline, with data", informer.Resumed, true, outcome{false, informer.FromDisk, 2}},
		{"Disk, offline, with data", informer.Disk, true, outcome{true, informer.FromDisk, 2}},
		{"Resumed, offline, never listed", informer.Resumed, false, outcome{false, informer.None, 0}},
		{"Disk, offline, never listed", informer.Disk, false, outcome{false, informer.None, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				if tc.stored {
					r.start()
					r.close()
				}
				r.srv.setFail(refuse)
				r.o.SyncPolicy = tc.policy
				h := &recorder{}
				i := r.open()
				reg, err := i.AddEventHandler(h)
				if err != nil {
					t.Fatal(err)
				}
				r.run()
				time.Sleep(time.Minute)
				synctest.Wait()
				s := i.Status()
				if got := (outcome{i.HasSynced(), s.Source, len(h.take())}); got != tc.want {
					t.Errorf("offline: %+v, want %+v", got, tc.want)
				}
				if reg.HasSynced() != tc.want.synced || s.Synced != tc.want.synced {
					t.Errorf("registration synced %v, status %v, want %v", reg.HasSynced(), s.Synced, tc.want.synced)
				}
				if s.Err == nil {
					t.Error("the status does not tell why there is no connection")
				}
				r.srv.setFail(nil)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if s := i.Status(); !i.HasSynced() || !reg.HasSynced() || s.Source != informer.Live || s.Err != nil {
					t.Errorf("online: synced %v, %+v", i.HasSynced(), s)
				}
				r.close()
			})
		})
	}
}

// TestListedAndEmpty checks that a collection is complete after an empty list, so a restart does not list.
func TestListedAndEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.close()
		r.srv.setFail(refuse)
		r.o.SyncPolicy = informer.Disk
		i := r.start()
		if s := i.Status(); !i.HasSynced() || s.Source != informer.FromDisk || s.Objects != 0 {
			t.Errorf("an empty list that was stored: %+v", s)
		}
		r.close()
	})
}

// TestBookmarkIsStored checks that an informer without recent events resumes from its last bookmark, not from its
// newest object.
func TestBookmarkIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.start()
		r.srv.mu.Lock()
		r.srv.rv = 500 // writes of other resources advance the resourceVersion
		r.srv.mu.Unlock()
		r.srv.bookmark()
		synctest.Wait()
		if rv := i.GetStore().LastStoreSyncResourceVersion(); rv != "500" {
			t.Errorf("stored %s after a bookmark at 500", rv)
		}
		r.close()
	})
}

// TestPagesOfAnInterruptedColdStart checks that after an end between two pages of the first list the next process
// lists, and its handlers get each object once.
func TestPagesOfAnInterruptedColdStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.PageSize = 2
		for _, key := range []string{"a/1", "a/2", "a/3", "a/4"} {
			r.srv.write(key, "x")
		}
		r.srv.setFail(func(_ string, o metav1.ListOptions) error {
			if o.Continue != "" {
				return apierrors.NewServiceUnavailable("down")
			}
			return nil
		})
		r.start()
		r.close()
		r.srv.setFail(nil)
		r.srv.delete("a/1")
		r.srv.write("a/2", "y")
		h := &recorder{}
		i := r.start(h)
		time.Sleep(time.Minute)
		synctest.Wait()
		state := map[string]string{}
		replay(t, state, h.take())
		equal(t, "what the handler knows", sortedValues(state), r.srv.state())
		equal(t, "store", r.stored(), r.srv.state())
		if !i.HasSynced() {
			t.Error("not synced")
		}
		r.close()
	})
}
