package informer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

var eachResidency = map[string]store.Residency{"all": store.All, "bounded": store.Bounded(1 << 20), "none": store.None}

// TestDamagedRecordsAreFetchedAgain: a start meets records that can not be read. They are fetched, one request each, and nothing is listed; one that the server does not have
// any more was known to nobody in this run.
func TestDamagedRecordsAreFetchedAgain(t *testing.T) {
	for name, residency := range eachResidency {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Residency = residency
				r.o.Indexers = cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc}
				for n := range 30 {
					r.srv.write(fmt.Sprintf("a/%02d", n), "x")
				}
				r.start()
				r.close()
				storetest.Flip(t, r.path, "a/03", "a/05")
				r.srv.delete("a/05")
				h := &recorder{}
				i := r.start(h)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				s := i.Status()
				if !s.Synced || s.Source != Live || s.Err != nil || s.Reflector.Lists > 0 {
					t.Errorf("status %+v", s)
				}
				equal(t, "store", r.stored(), r.srv.state())
				told := h.take()
				if n := len(slices.DeleteFunc(slices.Clone(told), func(l string) bool { return !strings.HasPrefix(l, "add a/03@104=x") })); n != 1 || len(told) > 31 {
					t.Errorf("told %d times of a/03: %q", n, told)
				}
				if len(s.Incidents) != 1 || s.Incidents[0].Cause != CauseDamaged || s.IncidentTotals[CauseDamaged] != 1 {
					t.Fatalf("incidents %+v", s.Incidents)
				}
				equal(t, "findings", kinds(s.Incidents[0].Findings), []string{"Missing a/03  104"})
				r.close()

				i = r.start()
				if s := i.Status(); s.Reflector.Lists > 0 || !s.Synced {
					t.Errorf("after the repair the next start: %+v", s.Reflector)
				}
				r.close()
			})
		})
	}
}

// TestAuditFindsHoles: records are gone, and no read meets that. The audit has the file looked through.
func TestAuditFindsHoles(t *testing.T) {
	for name, residency := range eachResidency {
		for _, indexed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, index %v", name, indexed), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t)
					r.o.Residency = residency
					if indexed {
						r.o.Indexers = cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc}
					}
					for n := range 30 {
						r.srv.write(fmt.Sprintf("a/%02d", n), "x")
					}
					r.start()
					r.close()
					storetest.Punch(t, r.path, "a/03", "a/05", "a/07")
					h := &recorder{}
					i := r.start(h)
					if s := i.Status(); s.Reflector.Lists > 0 || !s.Synced {
						t.Fatalf("the start has met the holes: %+v", s)
					}
					if len(h.take()) != 27 {
						t.Error("the handler was not told of 27 objects")
					}
					report := r.audit()
					want := []string{"Missing a/03  104", "Missing a/05  106", "Missing a/07  108"}
					equal(t, "findings", kinds(report.Findings), want)
					equal(t, "store", r.stored(), r.srv.state())
					equal(t, "handler", h.take(), []string{"add a/03@104=x", "add a/05@106=x", "add a/07@108=x"})
					if s := i.Status(); indexed && s.Reflector.Lists > 0 || s.IncidentTotals[CauseDamaged] != 1 {
						t.Errorf("status %+v", s)
					}
					r.close()
				})
			})
		}
	}
}

// fakeMender repairs what a failingFile has.
type fakeMender struct {
	*failingFile
	mended []store.Mended
	lost   []string
	// resumable counts the calls of Resumable.
	resumable int
}

func (m *fakeMender) Mend(ctx context.Context) ([]store.Mended, error) {
	return m.mended, m.rebuild(ctx)
}
func (m *fakeMender) TakeLost() ([]string, int) { return m.lost, 0 }

func (m *fakeMender) Resumable(context.Context) error {
	m.resumable++
	return nil
}

// TestRestoredFromMemory: what the repair has written again from memory is an incident, and nobody is asked or told.
func TestRestoredFromMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		h := &recorder{}
		i := r.open()
		f := &failingFile{failed: make(chan struct{})}
		i.failure = f
		i.mendFile = &fakeMender{failingFile: f, mended: []store.Mended{{Identity: i.Identity(), Restored: []string{"a/1"}}}}
		r.run(h)
		h.take()
		f.fail(store.ErrDamaged)
		synctest.Wait()
		s := i.Status()
		if len(s.Incidents) != 1 {
			t.Fatalf("incidents %+v", s.Incidents)
		}
		equal(t, "findings", kinds(s.Incidents[0].Findings), []string{"Restored a/1  101"})
		equal(t, "handler", h.take(), nil)
		if s.Reflector.Lookups > 0 || s.Reflector.Lists > 1 || s.Err != nil {
			t.Errorf("%+v", s)
		}
		r.close()
	})
}

// TestLostAndGone: the file has lost an object that handlers know, and the server does not have it any more. They are told, once.
func TestLostAndGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		h := &recorder{}
		i := r.open()
		f := &failingFile{failed: make(chan struct{})}
		m := &fakeMender{failingFile: f, mended: []store.Mended{}}
		losses := 0
		i.failure, i.mendFile, i.losses = f, m, func() int { return losses }
		r.run(h)
		h.take()
		r.srv.swallow(func() { r.srv.delete("a/2") })
		op := store.Op{Type: store.Delete, Object: cache.DeletedFinalStateUnknown{Key: "a/2"}}
		if _, err := i.store.Apply(context.Background(), store.Batch{Ops: []store.Op{op}}); err != nil { // as a repair does
			t.Fatal(err)
		}
		losses, m.lost = 1, []string{"a/2"}
		f.fail(store.ErrDamaged)
		synctest.Wait()
		r.srv.bookmark()
		synctest.Wait()
		equal(t, "handler", h.take(), []string{"gone a/2"})
		if s := i.Status(); s.Reflector.Lists > 1 || s.Source != Live {
			t.Errorf("%+v", s)
		}
		r.close()
	})
}
