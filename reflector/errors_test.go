package reflector_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

var things = schema.GroupResource{Resource: "configmaps"}

// transportErrors returns the errors after which a watch continues at the same resourceVersion.
func transportErrors() map[string]error {
	return map[string]error{
		"EOF":            io.EOF,
		"unexpected EOF": io.ErrUnexpectedEOF,
		"reset":          &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"refused":        &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"DNS":            &net.DNSError{Err: "no such host", Name: "example"},
		"timeout":        context.DeadlineExceeded,
		"401":            apierrors.NewUnauthorized("no"),
		"429":            apierrors.NewTooManyRequests("storage is (re)initializing", 1),
		"500":            apierrors.NewInternalError(errors.New("boom")),
		"503":            apierrors.NewServiceUnavailable("away"),
		"504":            apierrors.NewTimeoutError("slow", 1),
		"no body":        apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", things, "", "", 0, true),
		"400":            apierrors.NewBadRequest("what"),
		"409":            apierrors.NewConflict(things, "x", errors.New("no")),
	}
}

func deniedErrors() map[string]error {
	return map[string]error{
		"403": apierrors.NewForbidden(things, "", errors.New("no")),
		"404": apierrors.NewNotFound(things, ""),
		"405": apierrors.NewMethodNotSupported(things, "watch"),
	}
}

func TestErrorWithoutAMessage(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.denyWatches(&apierrors.StatusError{ErrStatus: metav1.Status{Code: 401, Reason: metav1.StatusReasonUnauthorized}})
		g.sleep(time.Second)
		if err := g.r.Status().Err; !apierrors.IsUnauthorized(err) || !strings.Contains(err.Error(), "401 Unauthorized") {
			t.Errorf("status says %v", err)
		}
		g.stop()
	})
}

func TestErrorsOfTheWatchRequest(t *testing.T) {
	for name, fault := range transportErrors() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				left := 3
				g.restart(func() {
					g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
						if left == 0 {
							return nil, nil
						}
						left--
						return nil, fault
					}
				}, reflector.Options{})
				if st := g.r.Status(); !errors.Is(st.Err, fault) || st.State != reflector.Backoff || st.Resumes != 0 {
					t.Errorf("status %+v", st)
				}
				g.sleep(time.Minute)
				g.s.put("a/x", "2")
				synctest.Wait()
				g.wantNoList()
				st := g.r.Status()
				if st.Watches != 4 || st.Resumes != 1 || st.Err != nil || st.State != reflector.Watch || len(g.errs) != 3 {
					t.Errorf("status %+v, errors %v", st, g.errs)
				}
				for _, r := range g.s.seen() {
					if r.Watch && r.ResourceVersion != "101" {
						t.Errorf("watched at %s", r.ResourceVersion)
					}
				}
				g.stop()
			})
		})
	}
}

func TestErrorsInTheStream(t *testing.T) {
	for name, fault := range transportErrors() {
		var status *apierrors.StatusError
		if !errors.As(fault, &status) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				g.restart(func() {}, reflector.Options{})
				g.s.put("a/y", "1")
				g.sleep(time.Second)
				g.s.cut(status)
				synctest.Wait()
				if st := g.r.Status(); st.State != reflector.Backoff || st.Err == nil {
					t.Errorf("status %+v", st)
				}
				g.s.put("a/y", "2")
				g.sleep(10 * time.Second)
				g.wantNoList()
				if g.m.syncs() != 2 {
					t.Errorf("%d syncs, want one for each connection", g.m.syncs())
				}
				if r := g.s.seen(); len(g.errs) != 1 || g.r.Status().Err != nil || r[len(r)-2].ResourceVersion == "101" {
					t.Errorf("errors %v, requests %s", g.errs, asJSON(r))
				}
				g.stop()
			})
		})
	}
}

// TestErrorsOfTheProbe checks that an error of the probe (a list with limit=1) causes no list.
func TestErrorsOfTheProbe(t *testing.T) {
	faults := transportErrors()
	faults["410"] = apierrors.NewResourceExpired("odd")
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				left := 2
				g.restart(func() {
					g.s.onList = func(r request) (runtime.Object, error) {
						if left == 0 || r.FieldSelector != "" {
							return nil, nil
						}
						left--
						return nil, fault
					}
				}, reflector.Options{})
				g.sleep(time.Minute)
				g.wantNoList()
				if st := g.r.Status(); st.Watches != 1 || st.Resumes != 1 || len(g.errs) != 2 {
					t.Errorf("status %+v, errors %v", st, g.errs)
				}
				g.stop()
			})
		})
	}
}

func TestDenied(t *testing.T) {
	for name, fault := range deniedErrors() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				on := true
				g.restart(func() {
					g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
						if on {
							return nil, fault
						}
						return nil, nil
					}
				}, reflector.Options{})
				if st := g.r.Status(); st.State != reflector.Degraded || !errors.Is(st.Err, fault) {
					t.Errorf("status %+v", st)
				}
				g.sleep(10 * time.Minute)
				// After the first attempts the reflector retries every 15 s on average.
				st := g.r.Status()
				if st.Watches < 20 || st.Watches > 80 {
					t.Errorf("%d watches in ten minutes", st.Watches)
				}
				on = false
				lists := st.Lists
				g.s.put("a/x", "2")
				g.sleep(31 * time.Second)
				if st := g.r.Status(); st.Lists != lists || st.Err != nil || st.State != reflector.Watch && st.State != reflector.Drain {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		n := 0
		g.restart(func() {
			g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
				if n++; n == 1 {
					return nil, apierrors.NewTooManyRequests("later", 20)
				}
				return nil, nil
			}
		}, reflector.Options{})
		g.sleep(19900 * time.Millisecond)
		if n != 1 {
			t.Errorf("asked again before the time that the server named")
		}
		g.sleep(time.Second)
		if n != 2 {
			t.Errorf("%d watches after it", n)
		}
		g.stop()
	})
}

func TestBackoffIsResetByHealth(t *testing.T) {
	bubble(t, func(g *rig) {
		g.start(reflector.Options{})
		boom := apierrors.NewInternalError(errors.New("boom"))
		for range 20 {
			g.s.cut(boom)
			g.sleep(31 * time.Second)
		}
		s := g.s.seen()
		g.sleep(3 * time.Minute)
		if len(g.s.seen()) > len(s)+2 {
			t.Errorf("unstable")
		}
		g.s.cut(boom)
		g.sleep(801 * time.Millisecond)
		if st := g.r.Status(); st.Err != nil {
			t.Errorf("no new watch within the first back-off: %+v", st)
		}
		g.stop()
	})
}

func TestServerAwayForAMinute(t *testing.T) {
	for name, fault := range map[string]error{"refused": errRefused, "half-open": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				g.restart(func() {}, reflector.Options{})
				away := true
				g.s.onList = func(request) (runtime.Object, error) {
					if away {
						return nil, errRefused
					}
					return nil, nil
				}
				if fault == nil {
					g.s.mute()
				} else {
					g.s.cut(apierrors.NewServiceUnavailable("going down"))
				}
				g.sleep(time.Minute)
				away = false
				g.s.put("a/y", "1")
				g.sleep(3 * time.Minute)
				g.wantNoList()
				if st := g.r.Status(); st.Err != nil {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

func TestHangingRequests(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		n := 0
		g.restart(func() {
			g.s.onWatch = func(ctx context.Context, _ request) (watch.Interface, error) {
				if n++; n == 1 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, nil
			}
		}, reflector.Options{})
		g.sleep(89 * time.Second)
		if n != 1 {
			t.Errorf("%d watches while the first hangs", n)
		}
		g.sleep(2 * time.Second)
		if st := g.r.Status(); n != 2 || st.Err != nil || st.Resumes != 1 {
			t.Errorf("%d watches, status %+v", n, st)
		}
		g.wantNoList()
		g.stop()
	})
}

// TestErrorAfterATimeOut: after an error all five objects are looked up, since the next server may be another server.
func TestErrorAfterATimeOut(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(3)
		g.start(reflector.Options{})
		fail := true
		g.s.onList = func(request) (runtime.Object, error) {
			if fail {
				fail = false
				return nil, errRefused
			}
			return nil, nil
		}
		for g.r.Status().Watches < 2 {
			g.s.other(1)
			g.sleep(30 * time.Second)
		}
		if st := g.r.Status(); st.Lookups != 3 || len(g.errs) != 1 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}
