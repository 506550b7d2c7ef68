package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/reflector"
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
	whole  atomic.Int64 // calls of Resumable
}

func (m *fakeMender) Mend(ctx context.Context) ([]store.Mended, error) {
	return m.mended, m.rebuild(ctx)
}
func (m *fakeMender) TakeLost() ([]string, int) { return m.lost, 0 }
func (m *fakeMender) Resumable(context.Context, int) error {
	m.whole.Add(1)
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

// TestTwoRepairs: while what one repair has lost is fetched there is another loss. That the first is made good does not make the file whole: a process that died then would leave
// a hole that nothing tells of.
func TestTwoRepairs(t *testing.T) {
	for name, second := range map[string][]string{"that is fetched too": {"a/2"}, "that takes a list": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				i := r.open()
				f := &failingFile{failed: make(chan struct{})}
				m := &fakeMender{failingFile: f, mended: []store.Mended{}}
				var losses atomic.Int64
				i.failure, i.mendFile, i.losses = f, m, func() int { return int(losses.Load()) }
				r.run()
				lose := func(keys []string) {
					losses.Add(1)
					m.lost = keys
					f.fail(store.ErrDamaged)
					synctest.Wait()
				}
				var first atomic.Bool
				r.srv.setFail(func(verb string, o metav1.ListOptions) error {
					if verb != "list" || first.Load() && strings.Contains(o.FieldSelector, "metadata.name=1") {
						return nil
					}
					return errors.New("connection refused")
				})
				lose([]string{"a/1"})
				lose(second)
				first.Store(true)
				for range 10 {
					time.Sleep(30 * time.Second)
					r.srv.bookmark()
				}
				synctest.Wait()
				if n := m.whole.Load(); n > 0 {
					t.Errorf("said to be whole while something is lacking")
				}
				r.srv.setFail(nil)
				for range 10 {
					time.Sleep(30 * time.Second)
					r.srv.bookmark()
				}
				synctest.Wait()
				s := i.Status()
				if n := m.whole.Load(); second != nil && n != 1 || second == nil && n+int64(s.Reflector.Relists[reflector.ReasonDamaged]) < 1 {
					t.Errorf("said to be whole %d times, %+v", n, s.Reflector.Relists)
				}
				equal(t, "store", r.stored(), r.srv.state())
				r.close()
			})
		})
	}
}

// TestLostIsNotLive: while an object that the file has lost is being fetched, readers miss it, and the status says so.
func TestLostIsNotLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		i := r.open()
		f := &failingFile{failed: make(chan struct{})}
		m := &fakeMender{failingFile: f, mended: []store.Mended{}}
		losses := 0
		i.failure, i.mendFile, i.losses = f, m, func() int { return losses }
		r.run()
		r.srv.bookmark()
		synctest.Wait()
		if s := i.Status(); s.Source != Live {
			t.Fatalf("%+v", s)
		}
		op := store.Op{Type: store.Delete, Object: cache.DeletedFinalStateUnknown{Key: "a/2"}}
		if _, err := i.store.Apply(context.Background(), store.Batch{Ops: []store.Op{op}}); err != nil { // as a repair does
			t.Fatal(err)
		}
		losses, m.lost = 1, []string{"a/2"}
		r.srv.swallow(func() { r.srv.write("b/1", "x") }) // the server moves on, and the stream has not come to the answer
		f.fail(store.ErrDamaged)
		synctest.Wait()
		if s := i.Status(); s.Source == Live || len(r.stored()) != 1 {
			t.Errorf("%d objects, %s", len(r.stored()), s.Source)
		}
		time.Sleep(2 * time.Minute)
		r.srv.bookmark()
		synctest.Wait()
		if s := i.Status(); s.Source != Live || len(r.stored()) != 2 || s.Reflector.Lists > 1 {
			t.Errorf("%d objects, %+v", len(r.stored()), s)
		}
		r.close()
	})
}
