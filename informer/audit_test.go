package informer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

func (s *server) swallow(change func()) {
	s.mu.Lock()
	watches, history := s.watches, s.history
	s.watches = map[*stream]bool{}
	s.mu.Unlock()
	change()
	s.mu.Lock()
	s.watches, s.history = watches, history
	s.log = nil
	s.mu.Unlock()
}

// audit runs an audit while the server sends the bookmarks that an audit needs.
func (r *rig) audit() audit.Report {
	r.t.Helper()
	report, err := r.auditErr()
	if err != nil {
		r.t.Error(err)
	}
	return report
}

func (r *rig) auditErr() (report audit.Report, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = r.i.Audit(context.Background())
	}()
	for {
		synctest.Wait()
		select {
		case <-done:
			synctest.Wait()
			return report, err
		case <-time.After(time.Minute):
			r.srv.bookmark()
		}
	}
}

// TestAuditRepairs checks that handlers get the changes whose events were lost.
func TestAuditRepairs(t *testing.T) {
	for name, residency := range map[string]store.Residency{"all": store.All, "none": store.None} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Residency = residency
				for n := range 10 {
					r.srv.write(fmt.Sprintf("a/%02d", n), "x")
				}
				h := &recorder{}
				i := r.start(h)
				r.srv.swallow(func() {
					r.srv.write("a/10", "new")
					r.srv.write("a/03", "changed")
					r.srv.delete("a/05")
					r.srv.delete("a/07")
					r.srv.write("a/07", "again")
				})
				h.take()
				report := r.audit()
				equal(t, "keys", report.Keys, []string{"a/03", "a/05", "a/07", "a/10"})
				if report.Objects != 10 || report.Differing != 4 || !report.Listed {
					t.Errorf("report %+v", report)
				}
				equal(t, "store", r.stored(), r.srv.state())
				calls := h.take()
				slices.Sort(calls)
				equal(t, "handler", calls, []string{
					"add a/10@111=new", "gone a/05 last a/05@106=x", "update a/03@104=x to a/03@112=changed",
					"update a/07@108=x to a/07@115=again",
				})
				s := i.Status()
				if s.Incidents[audit.CauseAudit] != 1 || s.Reflector.Relists[reflector.ReasonAudit] != 1 || s.Err != nil {
					t.Errorf("status %+v", s)
				}
				if again := r.audit(); again.Differing > 0 {
					t.Errorf("a second audit found %+v", again)
				}
				r.srv.write("a/03", "goes on")
				synctest.Wait()
				equal(t, "after it", h.take(), []string{"update a/03@112=changed to a/03@116=goes on"})
				r.close()
			})
		})
	}
}

func TestAuditInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.InMemory = true
		r.srv.write("a/1", "x")
		r.start()
		r.srv.swallow(func() { r.srv.delete("a/1"); r.srv.write("a/2", "x") })
		equal(t, "keys", r.audit().Keys, []string{"a/1", "a/2"})
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestAuditsOfABusyServer checks that audits report no difference if no event was lost. For ten minutes the server
// writes several times a second, and the connection sometimes breaks.
func TestAuditsOfABusyServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.AuditEvery = time.Minute
		r.o.PageSize = 50
		key := func(n int) string { return fmt.Sprintf("a/%03d", n%700) }
		for n := range 700 {
			r.srv.write(key(n), "x")
		}
		i := r.start()
		for n := range 3000 {
			r.srv.write(key(n*7), "y")
			if n%4 == 0 {
				r.srv.delete(key(n * 13))
			}
			if n%500 == 499 {
				r.srv.disconnect()
			}
			time.Sleep(200 * time.Millisecond)
		}
		s := i.Status()
		if len(s.Incidents) > 0 || len(s.Reflector.Relists) > 0 {
			t.Errorf("incidents %+v, relists %v", s.Incidents, s.Reflector.Relists)
		}
		if s.Audit.Ended.IsZero() || s.Audit.Err != nil || s.Audit.Report.Objects < 100 {
			t.Errorf("audit %+v", s.Audit)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestAuditWithManyDifferences checks that many differences cause one list and one incident, and that the report names
// ten keys.
func TestAuditWithManyDifferences(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 600 {
			r.srv.write(fmt.Sprintf("a/%03d", n), "x")
		}
		i := r.start()
		time.Sleep(5 * time.Minute) // a list soon after the first one would wait
		r.srv.disconnect()          // a watch that began after the lost events would deliver them
		time.Sleep(time.Minute)
		r.srv.swallow(func() {
			for n := range 201 {
				r.srv.write(fmt.Sprintf("a/%03d", n), "y")
			}
		})
		report := r.audit()
		if !report.Listed || report.Differing != 201 || len(report.Keys) != 10 {
			t.Errorf("listed %v, %d differing, keys %q", report.Listed, report.Differing, report.Keys)
		}
		s := i.Status()
		if s.Reflector.Relists[reflector.ReasonAudit] != 1 || len(s.Reflector.Relists) != 1 ||
			s.Incidents[audit.CauseAudit] != 1 {
			t.Errorf("relists %v, incidents %v", s.Reflector.Relists, s.Incidents)
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

func TestAuditIgnoresLeftOutObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.TransformVersion = informer.Unversioned
		r.srv.write("a/bad", "x")
		r.srv.write("a/good", "x")
		i := r.open()
		err := i.SetTransform(func(obj any) (any, error) {
			if obj.(*corev1.Pod).Name == "bad" {
				return nil, errors.New("from the test")
			}
			return obj, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		first, skipped := r.audit(), i.Status().Skipped
		second := r.audit()
		if first.Differing+second.Differing > 0 || i.Status().Skipped != skipped {
			t.Errorf("first %+v, second %+v", first, second)
		}
		r.close()
	})
}

func TestAuditRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		if _, err := i.Audit(context.Background()); !errors.Is(err, audit.ErrNotLive) {
			t.Errorf("before the run: %v", err)
		}
		r.run()
		r.srv.setFail(func(verb string, o metav1.ListOptions) error { return errors.New("from the test") })
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if _, err := i.Audit(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a server: %v", err)
		}
		cancel()
		r.srv.setFail(nil)
		done := make(chan error)
		r.srv.swallow(func() { r.srv.write("a/2", "x") }) // the audit waits for a bookmark, which does not arrive
		go func() {
			_, err := i.Audit(context.Background())
			done <- err
		}()
		time.Sleep(10 * time.Second)
		r.stop()
		if err := <-done; !errors.Is(err, context.Canceled) &&
			!strings.Contains(fmt.Sprint(err), "the informer has stopped already") {
			t.Errorf("at the end of the run: %v", err)
		}
		r.close()
	})
}

// TestAuditOfAResumedWatch checks that an audit finds a change whose event an earlier process on the file has lost.
func TestAuditOfAResumedWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 30 {
			r.srv.write(fmt.Sprintf("a/%02d", n), "x")
		}
		r.start()
		// The checks at a resume look up only the newest objects, so they do not find the delete of an older object.
		r.srv.swallow(func() { r.srv.delete("a/03") })
		r.close()
		r.srv.write("a/40", "x")
		h := &recorder{}
		i := r.start(h)
		h.take()
		equal(t, "keys", r.audit().Keys, []string{"a/03"})
		equal(t, "handler", h.take(), []string{"gone a/03 last a/03@104=x"})
		if s := i.Status(); s.Reflector.Relists[reflector.ReasonAudit] != 1 || s.Reflector.Lists != 1 {
			t.Errorf("%+v", s.Reflector)
		}
		equal(t, "store", r.stored(), r.srv.state())
		r.close()
	})
}

// TestAuditByMetadata checks that an audit lists whole objects if the server refuses metadata or sends it without UIDs.
func TestAuditByMetadata(t *testing.T) {
	notAcceptable := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotAcceptable,
		Reason: metav1.StatusReasonNotAcceptable}}
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadataList) error
		want   int64
	}{
		"metadata": {func(*metav1.PartialObjectMetadataList) error { return nil }, 2},
		"refused":  {func(*metav1.PartialObjectMetadataList) error { return notAcceptable }, 1},
		"no UIDs": {func(list *metav1.PartialObjectMetadataList) error {
			for i := range list.Items {
				list.Items[i].UID = ""
			}
			return nil
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				for n := range auditPage + 10 {
					r.srv.write(fmt.Sprintf("a/%03d", n), "x")
				}
				var asked atomic.Int64
				r.o.ListMetadata = func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
					list, err := r.srv.listMetadata(ctx, o)
					if o.Limit != auditPage || err != nil {
						return list, err
					}
					asked.Add(1)
					return list, test.change(list)
				}
				i := r.start()
				r.srv.swallow(func() { r.srv.write("b/1", "new") })
				report := r.audit()
				equal(t, "keys", report.Keys, []string{"b/1"})
				if s := i.Status(); report.Objects != auditPage+11 || report.Differing != 1 ||
					s.Reflector.Relists[reflector.ReasonAudit] != 1 {
					t.Errorf("report %+v, %+v", report, s.Reflector)
				}
				if n := asked.Load(); n != test.want {
					t.Errorf("%d pages by metadata, want %d", n, test.want)
				}
				equal(t, "store", r.stored(), r.srv.state())
				r.close()
			})
		})
	}
}
