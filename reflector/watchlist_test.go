package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

var byWatch = reflector.WithStreams(reflector.Options{PageSize: 10})

// script makes the first watch one that feed fills, without the server.
func (g *rig) script(feed func(w *watch.FakeWatcher)) {
	first := true
	g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
		if !first {
			return nil, nil
		}
		first = false
		w := watch.NewFake()
		go feed(w)
		return w, nil
	}
}

// item returns the server's object.
func (g *rig) item(key string) *corev1.ConfigMap {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.s.objects[key].DeepCopy()
}

// TestWatchList checks that a cold list is delivered in pages from a watch, which stays open.
func TestWatchList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(25)
		g.start(byWatch)
		g.wantLog("BEGIN Cold", "PAGE 10", "PAGE 10", "PAGE 5", "END 125", "SYNCED")
		r := g.s.seen()
		if len(r) != 1 || !r[0].Watch || !*r[0].SendInitialEvents ||
			r[0].ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan ||
			r[0].ResourceVersion != "" || !r[0].AllowWatchBookmarks || *r[0].TimeoutSeconds < 300 || r[0].Limit != 0 {
			t.Errorf("asked for %s", asJSON(r))
		}
		g.s.put("a/00", "2")
		g.sleep(time.Second)
		g.converged()
		if st := g.r.Status(); st.Lists != 0 || st.Watches != 1 || st.Resumes != 0 || st.State != reflector.Watch ||
			st.Err != nil || len(st.Relists) != 0 {
			t.Errorf("status %+v", st)
		}
		// The next start resumes, and asks for no initial events.
		g.restart(func() { g.s.put("a/01", "2") }, byWatch)
		g.sleep(4 * time.Second)
		g.wantNoList()
		if st := g.r.Status(); st.Resumes != 1+1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestWatchListOfNothing checks that an empty list is delivered.
func TestWatchListOfNothing(t *testing.T) {
	bubble(t, func(g *rig) {
		g.start(byWatch)
		g.wantLog("BEGIN Cold", "END 100", "SYNCED")
		g.stop()
	})
}

// TestWatchListWarm checks that a relist by a watch is not visible before its end.
func TestWatchListWarm(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(25)
		g.start(byWatch)
		before := g.m.state()
		g.s.put("a/05", "2")
		g.s.remove("a/06")
		g.sleep(time.Second)
		middle := g.m.state()
		g.m.onPage = func() {
			if len(g.m.state()) != len(middle) {
				t.Error("a page is visible before the end")
			}
		}
		g.restart(func() {
			g.s.put("a/07", "2")
			g.s.remove("a/08")
			g.s.compact()
		}, byWatch)
		g.sleep(10 * time.Second)
		g.wantRelist(reflector.ReasonExpired)
		if l := g.m.lines(); !slices.Equal(l, []string{"BEGIN Expired", "PAGE 10", "PAGE 10", "PAGE 3", "END 129",
			"SYNCED"}) {
			t.Errorf("sink calls %q", l)
		}
		if st := g.r.Status(); len(before) != 25 || st.Lists != 0 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestWatchListMoves checks that changes before the end of the initial events are delivered as events, a recreated
// object included.
func TestWatchListMoves(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(3)
		zero, one, two := g.item("a/00"), g.item("a/01"), g.item("a/02")
		g.script(func(w *watch.FakeWatcher) {
			w.Add(two) // not in key order
			w.Add(zero)
			w.Add(one)
			g.s.remove("a/01")
			w.Delete(one)
			g.s.put("a/00", "2")
			w.Modify(g.item("a/00"))
			g.s.put("a/01", "again")
			w.Add(g.item("a/01"))
			w.Action(watch.Bookmark, endOfInitialEvents(106))
			g.s.put("a/03", "1")
			w.Add(g.item("a/03"))
		})
		g.start(byWatch)
		g.wantLog("BEGIN Cold", "PAGE 3", "DELETED a/01 ", "MODIFIED a/00 ", "ADDED a/01 ", "END 106", "SYNCED",
			"ADDED a/03 107")
		g.converged()
		g.stop()
	})
}

// TestWatchListBreaks checks that an error during the initial events aborts the list, and that it is requested again.
func TestWatchListBreaks(t *testing.T) {
	faults := map[string]func(w *watch.FakeWatcher){
		"410": func(w *watch.FakeWatcher) { w.Error(&gone().ErrStatus) },
		"500": func(w *watch.FakeWatcher) { w.Error(&apierrors.NewInternalError(errors.New("boom")).ErrStatus) },
		"too large": func(w *watch.FakeWatcher) {
			w.Error(&apierrors.NewTimeoutError("Too large resource version: 5", 1).ErrStatus)
		},
		"end":      func(w *watch.FakeWatcher) { w.Stop() },
		"late end": func(w *watch.FakeWatcher) { time.Sleep(time.Minute); w.Stop() },
	}
	for name, fault := range faults {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, warm %v", name, warm), func(t *testing.T) {
				bubble(t, func(g *rig) {
					g.fill(25)
					reason := reflector.ReasonCold
					if warm {
						reason = reflector.ReasonStore
						g.start(byWatch)
						g.stop()
						g.m.forget()
						g.m.relist = reflector.ReasonStore
						g.s.requests = nil
					}
					g.script(func(w *watch.FakeWatcher) {
						for i := range 15 {
							w.Add(g.item(fmt.Sprintf("a/%02d", i)))
						}
						fault(w)
					})
					g.start(byWatch)
					g.sleep(2 * time.Minute)
					g.converged()
					begin := "BEGIN " + string(reason)
					g.wantLog(begin, "PAGE 10", "ABORT", begin, "PAGE 10", "PAGE 10", "PAGE 5", "END 125", "SYNCED")
					if st := g.r.Status(); st.Lists != 0 || st.Watches != 2 || st.Err != nil || len(g.errs) != 1 {
						t.Errorf("status %+v, errors %v", st, g.errs)
					}
					g.stop()
				})
			})
		}
	}
}

// TestWatchListGivenUp checks that pages replace a list by a watch that the server does not support, for the rest of
// the run.
func TestWatchListGivenUp(t *testing.T) {
	badRequest := apierrors.NewBadRequest("unknown parameter")
	for _, tt := range []struct {
		name    string
		setup   func(g *rig)
		wait    time.Duration
		watches int // with sendInitialEvents, of two lists
		told    error
	}{
		{"422", func(g *rig) { g.s.initialEvents = refusesThem }, 0, 1, nil},
		{"400", func(g *rig) { g.refuse(badRequest) }, 0, 1, nil},
		{"400 in the stream", func(g *rig) {
			g.script(func(w *watch.FakeWatcher) { w.Error(&badRequest.ErrStatus) })
		}, 0, 1, nil},
		{"405, which may pass", func(g *rig) { g.refuse(apierrors.NewMethodNotSupported(things, "watch")) }, 0, 3, nil},
		{"another bookmark", func(g *rig) { g.s.initialEvents = ignoresThem }, 0, 1, reflector.ErrNoInitialEvents},
		{"silence", func(g *rig) { g.s.initialEvents = ignoresThem; g.s.noBookmarks = true }, maxSilence + time.Second, 1,
			reflector.ErrSlowInitialEvents},
		{"its whole time", func(g *rig) {
			g.script(func(w *watch.FakeWatcher) {
				for range *g.s.seen()[0].TimeoutSeconds {
					w.Add(g.item("a/00"))
					time.Sleep(time.Second)
				}
				w.Stop()
			})
		}, streamTime + time.Minute, 1, reflector.ErrSlowInitialEvents},
		{"the ListerWatcher cannot", func(*rig) {}, 0, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(25)
				tt.setup(g)
				o := byWatch
				if tt.watches == 0 {
					g.startOn(unable{g.s}, o)
				} else {
					g.start(o)
				}
				g.s.other(1) // so that there is a bookmark to send
				g.sleep(tt.wait + time.Minute + time.Second)
				g.converged()
				g.s.mu.Lock()
				g.s.noBookmarks = false
				g.s.mu.Unlock()
				g.r.Relist(reflector.ReasonStore)
				g.sleep(time.Minute)
				g.converged()
				n := 0
				for _, r := range g.s.seen() {
					if r.SendInitialEvents != nil {
						n++
					}
				}
				if st := g.r.Status(); n != tt.watches || st.Pages != 3*(3-max(1, n)) || st.Err != nil {
					t.Errorf("asked %d times for initial events, status %+v, errors %v", n, st, g.errs)
				}
				if told := slices.ContainsFunc(g.errs, func(err error) bool { return errors.Is(err, tt.told) }); tt.told != nil &&
					!told {
					t.Errorf("errors %v", g.errs)
				}
				g.stop()
			})
		})
	}
}

// refuse answers the first watch with err.
func (g *rig) refuse(err error) {
	first := true
	g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
		if first {
			first = false
			return nil, err
		}
		return nil, nil
	}
}

// unable is a ListerWatcher that does not support WatchList, like client-go's fakes.
type unable struct{ *server }

func (unable) IsWatchListSemanticsUnSupported() bool { return true }

// TestWatchListOfStraysOnly checks that a list by a watch with nothing but strays is aborted.
func TestWatchListOfStraysOnly(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(3)
		o := byWatch
		o.Admit = func(runtime.Object) error { return errors.New("none of these") }
		g.start(o)
		g.wantLog("BEGIN Cold", "ABORT")
		if st := g.r.Status(); !errors.Is(st.Err, reflector.ErrStrays) || st.Skipped != 3 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestWatchListHoldsOnePage checks that nothing is read from the watch while the sink takes a page.
func TestWatchListHoldsOnePage(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(50)
		taken := 0
		g.m.onPage = func() {
			time.Sleep(time.Second) // everything else waits when this ends
			taken += 10
			g.s.mu.Lock()
			defer g.s.mu.Unlock()
			if read := 51 - len(g.s.watches[0].queue); read != taken {
				t.Errorf("%d objects have been read when %d were taken", read, taken)
			}
		}
		g.start(byWatch)
		g.sleep(time.Minute)
		g.converged()
		if taken != 50 {
			t.Errorf("%d objects were taken in pages", taken)
		}
		g.stop()
	})
}

// TestStopInAWatchList checks that Run returns during a list by a watch, and leaves no goroutine.
func TestStopInAWatchList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(15)
		g.s.initialEvents, g.s.noBookmarks = ignoresThem, true
		g.start(byWatch)
		g.wantLog("BEGIN Cold", "PAGE 10")
		g.stop()
		synctest.Wait()
		g.wantLog("BEGIN Cold", "PAGE 10", "ABORT")
	})
}
