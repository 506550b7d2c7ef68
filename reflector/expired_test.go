package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

func TestExpired(t *testing.T) {
	for _, inBand := range []bool{true, false} {
		t.Run(fmt.Sprintf("in band %v", inBand), func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.expireInBand = inBand
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				g.restart(func() { g.s.put("a/y", "1"); g.s.compact() }, reflector.Options{})
				g.wantRelist(reflector.ReasonExpired)
				st := g.r.Status()
				if st.Resumes != 0 || st.Lists != 1 || st.Watches != 2 || st.Err != nil {
					t.Errorf("status %+v", st)
				}
				if len(g.errs) != 1 || !apierrors.IsResourceExpired(g.errs[0]) {
					t.Errorf("errors %v", g.errs)
				}
				g.stop()
			})
		})
	}
}

// gone is the 410 that servers before 1.17 send for a lost history.
func gone() *apierrors.StatusError {
	err := apierrors.NewResourceExpired("too old resource version")
	err.ErrStatus.Reason = metav1.StatusReasonGone
	return err
}

// uncached is the error of an API server without a watch cache if etcd was compacted at exactly the next event.
func uncached() *apierrors.StatusError {
	return apierrors.NewInternalError(errors.New("etcd event received with PrevKv=nil " +
		"(key=\"/registry/events/a/x\", modRevision=30846, type=PUT)"))
}

func TestGoneIsExpired(t *testing.T) {
	for _, err := range []*apierrors.StatusError{gone(), uncached()} {
		bubble(t, func(g *rig) {
			g.start(reflector.Options{})
			g.s.put("a/x", "1")
			synctest.Wait()
			g.sleep(5 * time.Minute / 2)
			g.s.cut(err)
			g.sleep(time.Second)
			g.wantRelist(reflector.ReasonExpired)
			g.stop()
		})
	}
}

// TestResumeThatExpiresLater checks that a watch that has delivered events counts as a resume, although a 410 ends it.
func TestResumeThatExpiresLater(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.put("a/y", "1") }, reflector.Options{})
		g.s.cut(gone())
		g.sleep(time.Second)
		g.wantRelist(reflector.ReasonExpired)
		if st := g.r.Status(); st.Resumes != 1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestResumesNeverGoBack checks that an accepted watch is not counted as a resume before its first message. API servers
// answer 200 before a 410, and Prometheus takes a counter that decreases for a restart. (issue 3)
func TestResumesNeverGoBack(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		var w *watch.FakeWatcher
		g.restart(func() {
			g.s.put("a/y", "1")
			g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
				if w != nil {
					return nil, nil
				}
				w = watch.NewFake()
				return w, nil
			}
		}, reflector.Options{})
		g.sleep(time.Second)
		if st := g.r.Status(); st.Watches != 1 || st.Resumes != 0 {
			t.Errorf("accepted, and nothing has come: %+v", st)
		}
		w.Error(&gone().ErrStatus)
		g.sleep(time.Second)
		g.wantRelist(reflector.ReasonExpired)
		if st := g.r.Status(); st.Resumes != 0 {
			t.Errorf("refused: %+v", st)
		}
		g.stop()
	})
}

func TestResumesThatHold(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noBookmarks = true
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		// The server is at the delivered resourceVersion, so the watch needs no history and counts as resumed.
		g.restart(func() {}, reflector.Options{})
		if st := g.r.Status(); st.Watches != 1 || st.Resumes != 1 {
			t.Errorf("level: %+v", st)
		}
		// The watch receives no message; its end in order proves that it was resumed.
		g.restart(func() { g.s.other(1) }, reflector.Options{})
		if st := g.r.Status(); st.Watches != 1 || st.Resumes != 0 {
			t.Errorf("silent: %+v", st)
		}
		g.sleep(3500 * time.Millisecond)
		if st := g.r.Status(); st.Watches != 2 || st.Resumes != 1 {
			t.Errorf("ended: %+v", st)
		}
		// The event proves that the watch was resumed.
		g.s.put("a/x", "2")
		g.sleep(100 * time.Millisecond)
		if st := g.r.Status(); st.Watches != 2 || st.Resumes != 2 {
			t.Errorf("an event: %+v", st)
		}
		g.s.put("a/x", "3")
		g.sleep(100 * time.Millisecond)
		if st := g.r.Status(); st.Watches != 2 || st.Resumes != 2 {
			t.Errorf("another event of the same watch: %+v", st)
		}
		g.stop()
	})
}

func TestRetryAfterIsForOnce(t *testing.T) {
	bubble(t, func(g *rig) {
		n := 0
		g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
			switch n++; n {
			case 1:
				return nil, apierrors.NewTooManyRequests("later", 20)
			case 2:
				return nil, apierrors.NewResourceExpired("too old")
			}
			return nil, nil
		}
		g.start(reflector.Options{})
		g.sleep(25 * time.Second)
		g.wantRelist(reflector.ReasonExpired)
		g.stop()
	})
}

func TestTooLarge(t *testing.T) {
	cause := apierrors.NewTimeoutError("Too large resource version: 5, current: 4", 1)
	cause.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for name, fault := range map[string]error{
		"by cause":   cause,
		"by message": apierrors.NewTimeoutError("Too large resource version: 5, current: 4", 1),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				n := 0
				g.restart(func() {
					g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
						if n++; n == 1 {
							return nil, fault
						}
						return nil, nil
					}
				}, reflector.Options{})
				g.wantRelist(reflector.ReasonAhead)
				g.stop()
			})
		})
	}
}

func TestExpiredInACircle(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
			return nil, apierrors.NewResourceExpired("too old")
		}
		g.start(reflector.Options{})
		g.sleep(10 * time.Minute)
		if st := g.r.Status(); st.Lists < 10 || st.Lists > 100 {
			t.Errorf("%d lists in ten minutes", st.Lists)
		}
		g.stop()
	})
}

// TestFetchesInVain checks that a list by metadata stops fetching objects once its watch has expired below the
// resourceVersion of a fetched object. The list can then not end any more.
func TestFetchesInVain(t *testing.T) {
	bubble(t, func(g *rig) {
		o := reflector.Options{ListMetadata: (&metadata{s: g.s}).list}
		g.fill(60)
		g.start(o)
		g.onFetch(func(n int, _ string) error {
			time.Sleep(time.Second)
			if n == 3 {
				g.s.other(1)
				g.s.cut(apierrors.NewResourceExpired("too old"))
				g.s.put("a/05", "3")
				g.s.compact()
			}
			return nil
		})
		g.missed(func() { g.change(3, 14, 29, 30, 31, 32, 33, 34, 35, 36) }, o)
		g.sleep(5 * time.Second)
		if l := g.m.lines(); count(l, "ABORT") != 1 || g.r.Status().Fetches > 5 {
			t.Errorf("%d were fetched; sink calls %q", g.r.Status().Fetches, l)
		}
		g.sleep(5 * time.Minute)
		g.converged()
		if l := g.m.lines(); count(l, "BEGIN") != 2 {
			t.Errorf("sink calls %q", l)
		}
		g.stop()
	})
}

// TestBackoffEndsWithAList checks that errors before a 410 do not delay its list, and that errors before a list do not
// delay the next watch. An example is a CRD whose version is not served for some seconds. Issue 38.
func TestBackoffEndsWithAList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		times := g.listTimes()
		for range 20 {
			g.r.Relist(reflector.ReasonStore)
			g.sleep(time.Second)
			g.denyWatches(apierrors.NewNotFound(things, ""))
			g.sleep(20 * time.Second)
			g.s.put("a/x", time.Now().String())
			g.s.compact()
			var expired time.Time
			g.s.mu.Lock()
			g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
				if !expired.IsZero() {
					return nil, nil
				}
				expired = time.Now()
				return nil, gone()
			}
			g.s.mu.Unlock()
			g.sleep(40 * time.Second)
			g.converged()
			listed := (*times)[len(*times)-1]
			if wait := listed.Sub(expired); expired.IsZero() || wait < 0 || wait > 800*time.Millisecond {
				t.Errorf("listed %v after the 410", wait)
			}
			g.s.cut(apierrors.NewInternalError(errRefused))
			g.sleep(800 * time.Millisecond)
			if st := g.r.Status(); st.Err != nil {
				t.Errorf("no new watch within the first back-off: %+v", st)
			}
			g.sleep(3 * time.Minute)
		}
		g.stop()
	})
}
