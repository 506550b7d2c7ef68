package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

const compacted = "rpc error: code = OutOfRange desc = etcdserver: mvcc: required revision has been compacted"

// refusedErrors returns the answers with which servers refuse a watch from a compacted resourceVersion, and other
// answers without a known remedy. Three of these answers in a row cause a list.
func refusedErrors() map[string]*apierrors.StatusError {
	return map[string]*apierrors.StatusError{
		"500":     apierrors.NewInternalError(errors.New(compacted)),
		"400":     apierrors.NewBadRequest(compacted),
		"409":     apierrors.NewConflict(things, "x", errors.New("no")),
		"422":     apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil),
		"501":     apierrors.NewGenericServerResponse(http.StatusNotImplemented, "get", things, "", "", 0, true),
		"504":     apierrors.NewTimeoutError("slow", 1),
		"no code": {ErrStatus: metav1.Status{Status: metav1.StatusFailure, Message: compacted}},
	}
}

// temporaryErrors returns the answers to a watch request after which the watch is retried endlessly.
func temporaryErrors() map[string]error {
	out := transportErrors()
	for name := range refusedErrors() {
		delete(out, name)
	}
	out["a connection lost"] = connectionLost("stream error: stream ID 5; INTERNAL_ERROR; received from peer")
	return out
}

// connectionLost returns the ERROR event that client-go sends for a connection that is lost in the middle of a watch,
// if it does not recognize the transport's error.
func connectionLost(text string) *apierrors.StatusError {
	r := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")
	status := r.AsObject(fmt.Errorf("unable to decode an event from the watch stream: %s", text)).(*metav1.Status)
	return &apierrors.StatusError{ErrStatus: *status}
}

// refuseBelow makes the server refuse watches from a resourceVersion below rv. err is the answer, or, if inBand is
// true, an ERROR event.
func (g *rig) refuseBelow(rv int, err error, inBand bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.s.onWatch = func(_ context.Context, r request) (watch.Interface, error) {
		if from, _ := strconv.Atoi(r.ResourceVersion); from >= rv {
			return nil, nil
		}
		var status *apierrors.StatusError
		if !inBand || !errors.As(err, &status) {
			return nil, err
		}
		w := watch.NewFakeWithChanSize(1, false)
		w.Error(&status.ErrStatus)
		return w, nil
	}
}

// TestRefusedWatch checks that the contents do not stay stale if a watch is refused with another code than 410. kine,
// dqlite and the API servers on them answer a compacted resourceVersion with other codes. k3s-io/k3s#1290,
// canonical/microk8s#5386, issue 38.
func TestRefusedWatch(t *testing.T) {
	for name, fault := range refusedErrors() {
		for _, inBand := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s in band %v", name, inBand), func(t *testing.T) {
				bubble(t, func(g *rig) {
					g.s.put("a/x", "1")
					g.start(reflector.Options{})
					g.refuseBelow(102, fault, inBand)
					g.s.withoutEvents(func() {
						g.s.put("a/x", "2")
						g.s.put("a/y", "1")
					})
					g.s.cut(nil)
					g.sleep(9 * time.Second)
					if st := g.r.Status(); st.Lists != 1 {
						t.Errorf("listed after nine seconds: status %+v", st)
					}
					g.sleep(time.Minute)
					g.converged()
					if st := g.r.Status(); st.Relists[reflector.ReasonExpired] != 1 || st.Lists != 2 || !st.Live {
						t.Errorf("status %+v", st)
					}
					g.stop()
				})
			})
		}
	}
}

// TestRefusedWatchAfterARestart checks that a restarted reflector whose watch is refused lists, even if the server's
// resourceVersion is unchanged: the program waits for Synced.
func TestRefusedWatchAfterARestart(t *testing.T) {
	for name, compares := range map[string]bool{"compares": true, "probes": false} {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, moved %v", name, moved), func(t *testing.T) {
				bubble(t, func(g *rig) {
					g.s.put("a/x", "1")
					g.start(reflector.Options{})
					o := reflector.Options{}
					if compares {
						o = g.compared(nil, nil)
					}
					g.restart(func() {
						if moved {
							g.s.put("a/x", "2")
						}
						g.refuseBelow(103, refusedErrors()["500"], false)
					}, o)
					g.sleep(time.Minute)
					g.converged()
					if st := g.r.Status(); g.m.syncs() != 1 || st.Lists != 1 {
						t.Errorf("%d syncs, status %+v", g.m.syncs(), st)
					}
					g.s.other(5)
					g.sleep(time.Minute)
					if st := g.r.Status(); !st.Live {
						t.Errorf("status %+v", st)
					}
					g.stop()
				})
			})
		}
	}
}

// TestRefusedWatchOfTheFuture checks a server that refuses a watch from a resourceVersion above its own.
func TestRefusedWatchOfTheFuture(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		b := g.s.backup()
		g.s.put("a/x", "2")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.restore(b)
			g.s.mu.Lock()
			g.s.onWatch = func(_ context.Context, r request) (watch.Interface, error) {
				if r.ResourceVersion == "102" {
					return nil, refusedErrors()["500"]
				}
				return nil, nil
			}
			g.s.mu.Unlock()
		}, g.compared(nil, nil))
		g.sleep(time.Minute)
		g.converged()
		g.wantRelist(reflector.ReasonAhead)
		g.stop()
	})
}

// TestRefusedWatchOfAQuietResource checks that refused watches cause no list while a probe shows no change.
func TestRefusedWatchOfAQuietResource(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.refuseBelow(102, refusedErrors()["500"], true)
		g.s.cut(nil)
		g.sleep(10 * time.Minute)
		if st := g.r.Status(); st.Lists != 1 || st.Live || st.State != reflector.Backoff || st.Err == nil ||
			time.Since(st.LastContact) > time.Minute {
			t.Errorf("status %+v", st)
		}
		g.s.put("a/x", "2")
		g.sleep(time.Minute)
		g.converged()
		g.stop()
	})
}

// TestRefusedForAWhile checks that three refused watches within ten seconds, fewer than three, or refusals at several
// resourceVersions cause no list.
func TestRefusedForAWhile(t *testing.T) {
	fault := refusedErrors()["500"]
	t.Run("two", func(t *testing.T) {
		bubble(t, func(g *rig) {
			g.s.put("a/x", "1")
			g.start(reflector.Options{})
			for n := range 20 {
				left := 2
				g.s.mu.Lock()
				g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
					if left--; left >= 0 {
						time.Sleep(20 * time.Second)
						return nil, fault
					}
					return nil, nil
				}
				g.s.mu.Unlock()
				g.s.put("a/x", fmt.Sprint(n))
				g.s.cut(nil)
				g.sleep(3 * time.Minute)
				g.converged()
			}
			if st := g.r.Status(); st.Lists != 1 {
				t.Errorf("status %+v", st)
			}
			g.stop()
		})
	})
	t.Run("each event is followed by a refusal", func(t *testing.T) {
		bubble(t, func(g *rig) {
			g.s.put("a/x", "1")
			g.start(reflector.Options{})
			for n := range 20 {
				g.s.put("a/x", fmt.Sprint(n))
				g.sleep(time.Second)
				g.s.cut(fault)
				g.sleep(31 * time.Second)
			}
			g.converged()
			if st := g.r.Status(); st.Lists != 1 {
				t.Errorf("status %+v", st)
			}
			g.stop()
		})
	})
}

// TestTransportErrorsCauseNoList checks that cut connections and outages of the server cause no list, however far the
// server's resourceVersion advances.
func TestTransportErrorsCauseNoList(t *testing.T) {
	for name, fault := range temporaryErrors() {
		for _, inBand := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s in band %v", name, inBand), func(t *testing.T) {
				bubble(t, func(g *rig) {
					g.s.put("a/x", "1")
					g.start(reflector.Options{})
					g.refuseBelow(1<<30, fault, inBand)
					g.s.put("a/x", "2")
					g.s.cut(nil)
					g.sleep(10 * time.Minute)
					if st := g.r.Status(); st.Lists != 1 || st.Watches < 10 {
						t.Errorf("status %+v", st)
					}
					g.refuseBelow(0, nil, false)
					g.sleep(time.Minute)
					g.converged()
					if st := g.r.Status(); st.Lists != 1 || !st.Live {
						t.Errorf("status %+v", st)
					}
					g.stop()
				})
			})
		}
	}
}

func TestCutWatchesCauseNoList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.s.mu.Lock()
		g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
			w := watch.NewFake()
			w.Stop()
			return w, nil
		}
		g.s.mu.Unlock()
		g.s.put("a/x", "2")
		g.s.cut(nil)
		g.sleep(10 * time.Minute)
		if st := g.r.Status(); st.Lists != 1 || st.Watches < 10 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestRefusedWatchWithoutAProbe checks that refused watches cause no list until a probe is answered.
func TestRefusedWatchWithoutAProbe(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		var away atomic.Bool
		away.Store(true)
		g.s.mu.Lock()
		g.s.onList = func(request) (runtime.Object, error) {
			if away.Load() {
				return nil, errRefused
			}
			return nil, nil
		}
		g.s.mu.Unlock()
		g.refuseBelow(102, refusedErrors()["500"], false)
		g.s.withoutEvents(func() { g.s.put("a/x", "2") })
		g.s.cut(nil)
		g.sleep(10 * time.Minute)
		if st := g.r.Status(); st.Lists != 1 {
			t.Errorf("status %+v", st)
		}
		away.Store(false)
		g.sleep(2 * time.Minute)
		g.converged()
		g.stop()
	})
}

// TestWatchIsNeverServed checks that a resource whose watch is always refused is listed again after changes, as by
// client-go, and no more often than every ten seconds.
func TestWatchIsNeverServed(t *testing.T) {
	bubble(t, func(g *rig) {
		times := g.listTimes()
		g.refuseBelow(1<<30, refusedErrors()["500"], false)
		g.s.put("a/x", "1")
		g.start(reflector.Options{RelistSpread: time.Second})
		for n := range 30 {
			g.s.put("a/x", fmt.Sprint(n))
			g.sleep(90 * time.Second)
			g.converged()
		}
		for n := range len(*times) - 1 {
			if wait := (*times)[n+1].Sub((*times)[n]); wait < 10*time.Second {
				t.Errorf("%s between two lists", wait)
			}
		}
		g.stop()
	})
}

// TestRefusedWatchWithOpaqueVersions: any different resourceVersion counts as higher if they cannot be compared.
func TestRefusedWatchWithOpaqueVersions(t *testing.T) {
	bubble(t, func(g *rig) {
		rv := "a"
		g.s.onList = func(r request) (runtime.Object, error) {
			l, err := g.s.list(r)
			if err == nil {
				g.s.mu.Lock()
				defer g.s.mu.Unlock()
				l.(metav1.ListInterface).SetResourceVersion("v-" + rv)
			}
			return l, err
		}
		g.refuseBelow(1<<30, refusedErrors()["500"], true)
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.sleep(5 * time.Minute)
		if st := g.r.Status(); st.Lists != 1 {
			t.Errorf("status %+v", st)
		}
		g.s.put("a/x", "2")
		g.s.mu.Lock()
		rv = "b"
		g.s.mu.Unlock()
		g.sleep(time.Minute)
		if st := g.r.Status(); st.Lists != 2 {
			t.Errorf("status %+v", st)
		}
		g.converged()
		g.stop()
	})
}

// TestRefusedFold checks that whole objects are listed if a list by metadata cannot end, because its watch is refused
// and objects change while they are fetched.
func TestRefusedFold(t *testing.T) {
	faults := map[string]error{}
	for name, fault := range refusedErrors() {
		faults[name] = fault
	}
	for name, fault := range deniedErrors() {
		faults[name] = fault
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := reflector.Options{PageSize: 20, ListMetadata: (&metadata{s: g.s}).list}
				g.fill(60)
				g.start(o)
				g.onFetch(func(n int, key string) error { // the objects change whenever one of them is fetched
					g.s.put(key, fmt.Sprint("later ", n))
					return nil
				})
				g.missed(func() {
					g.change(3)
					watches := 0
					g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
						if watches++; watches == 1 {
							return nil, gone()
						}
						return nil, fault
					}
				}, o)
				g.sleep(3 * time.Minute)
				g.converged()
				g.stop()
			})
		})
	}
}
