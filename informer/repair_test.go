package informer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// damage flips a bit in the stored record of key, and verifies the store, which finds it. The store is open.
func (r *rig) damage(key string) {
	r.t.Helper()
	if err := r.st.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	f, err := os.OpenFile(r.path, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	data, err := os.ReadFile(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	found := false
	for at, start := 0, []byte(key+"\x01"); ; at++ { // a record begins with its version, 1, and its checksum
		n := bytes.Index(data[at:], start)
		if n < 0 {
			break
		}
		at, found = at+n, true
		if _, err := f.WriteAt([]byte{data[at+len(start)] ^ 1}, int64(at+len(start))); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.st.Scrub(r.t.Context()); !found || !errors.Is(err, entry.ErrDamaged) || r.st.Err() != nil {
		r.t.Fatalf("found %v, %v, Err %v", found, err, r.st.Err())
	}
}

// TestDamagedRecordIsListedOnce checks that a bit that flips during the run causes one list, which rewrites the record
// once, and that handlers receive no older state.
func TestDamagedRecordIsListedOnce(t *testing.T) {
	for name, residency := range eachResidency {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Residency = residency
				for n := range 10 {
					r.srv.write(fmt.Sprintf("a/%d", n), "x")
				}
				h := &recorder{}
				i := r.start(h)
				h.take()
				r.damage("a/3")
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				if s := i.Status(); s.Reflector.Relists[reflector.ReasonDamaged] != 1 || s.Err != nil ||
					s.Source != informer.Live {
					t.Errorf("status %+v", s)
				}
				for _, line := range h.take() {
					if !mentions(line, "a/3@104=x") {
						t.Errorf("unexpected call: %s", line)
					}
				}
				equal(t, "store", r.stored(), r.srv.state())
				r.close()
			})
		})
	}
}

// failLists fails list requests, but not the probes that ask for one object.
func failLists(verb string, o metav1.ListOptions) error {
	if verb == "list" && o.Limit != 1 {
		return errors.New("connection refused")
	}
	return nil
}

// TestSyncWaitsForLostObjects checks that HasSynced waits for a list if a record was damaged before the start, because
// the watch does not restore the object.
func TestSyncWaitsForLostObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		r.start()
		r.close()
		storetest.Flip(t, r.path, "a/2")
		r.srv.write("a/1", "y")
		r.srv.setFail(failLists)
		i := r.open()
		r.run(&recorder{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if i.HasSynced() {
			t.Errorf("synced, the server has %q", r.srv.state())
		}
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		if !i.HasSynced() {
			t.Error("not synced")
		}
		r.close()
	})
}

// TestDamagedThenDeleted checks that OnDelete is called once for an object whose record is damaged, whether or not the
// DELETED event arrives before the list.
func TestDamagedThenDeleted(t *testing.T) {
	for name, how := range map[string]func(s *server, remove func()){
		"the watch sends an event": func(_ *server, remove func()) { remove() },
		"the watch sends no event": func(s *server, remove func()) { s.swallow(remove) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Residency = store.None
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				h := &recorder{}
				r.start(h)
				h.take()
				r.srv.setFail(failLists)
				r.damage("a/2")
				how(r.srv, func() { r.srv.delete("a/2") })
				time.Sleep(time.Minute)
				synctest.Wait()
				r.srv.setFail(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				got := h.take()
				deletes := slices.DeleteFunc(slices.Clone(got),
					func(l string) bool { return l != "gone a/2" && l != "delete a/2@103=x" })
				if len(deletes) != 1 {
					t.Errorf("%d deletes of a/2: %q", len(deletes), got)
				}
				equal(t, "store", r.stored(), r.srv.state())
				r.close()
			})
		})
	}
}

// TestNoWatchErrorHandler checks that SetWatchErrorHandler(nil) selects the default handler, as in client-go.
func TestNoWatchErrorHandler(t *testing.T) {
	quietHandlers(t)
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		if err := i.SetWatchErrorHandlerWithContext(nil); err != nil {
			t.Fatal(err)
		}
		r.run()
		r.srv.setFail(refuse)
		r.srv.disconnect()
		time.Sleep(time.Minute)
		if s := i.Status(); s.Source == informer.Live {
			t.Errorf("%+v", s.Reflector)
		}
		r.close()
	})
}
