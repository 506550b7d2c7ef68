package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// denyWatches makes the server refuse watches with err from now on, and cuts the open watches.
func (g *rig) denyWatches(err error) {
	g.s.mu.Lock()
	g.s.onWatch = func(context.Context, request) (watch.Interface, error) { return nil, err }
	g.s.mu.Unlock()
	g.s.cut(nil)
}

func (g *rig) allowWatches() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.s.onWatch = nil
}

func (g *rig) listTimes() *[]time.Time {
	var times []time.Time
	g.s.onList = func(r request) (runtime.Object, error) {
		if !r.probe() && r.Continue == "" {
			times = append(times, time.Now())
		}
		return nil, nil
	}
	return &times
}

// TestListOnly checks that a resource without watch is listed every 30 to 60 s, as by client-go. Issue 37.
func TestListOnly(t *testing.T) {
	for name, fault := range deniedErrors() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				times := g.listTimes()
				g.denyWatches(fault)
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				for n := range 100 {
					g.s.put("a/x", fmt.Sprint(n))
					g.sleep(61 * time.Second)
					g.converged()
				}
				if st := g.r.Status(); !st.ListOnly || st.Live || !errors.Is(st.Err, fault) || st.State != reflector.Degraded ||
					time.Since(st.LastContact) > time.Minute || st.Relists[reflector.ReasonListOnly] != len(*times)-1 {
					t.Errorf("status %+v", st)
				}
				for n := range len(*times) - 1 {
					if wait := (*times)[n+1].Sub((*times)[n]); wait < 30*time.Second || wait > time.Minute {
						t.Errorf("%s between two lists", wait)
					}
				}
				if syncs := g.m.syncs(); syncs != len(*times) {
					t.Errorf("%d syncs of %d lists", syncs, len(*times))
				}
				g.stop()
			})
		})
	}
}

// TestListOnlyAge checks that a slow list without a watch counts as of the request for its first page. Issue 37.
func TestListOnlyAge(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.denyWatches(apierrors.NewMethodNotSupported(things, "watch"))
		var begun time.Time
		var slow atomic.Bool
		g.s.onList = func(r request) (runtime.Object, error) {
			if r.probe() {
				g.s.other(1) // this change of another resource keeps probes from confirming the stored objects
				return nil, nil
			}
			if r.Continue == "" {
				begun = time.Now()
			}
			if slow.Load() {
				time.Sleep(20 * time.Second)
			}
			return nil, nil
		}
		contacts := 0
		g.start(reflector.Options{PageSize: 10, OnContact: func(at time.Time) {
			if contacts++; !at.Equal(begun) {
				t.Errorf("the list began %s ago, and its state counts as of %s ago", time.Since(begun), time.Since(at))
			}
		}})
		slow.Store(true)
		g.sleep(10 * time.Minute)
		slow.Store(false)
		g.sleep(time.Minute)
		if st := g.r.Status(); contacts < 3 || st.LastContact.After(begun) {
			t.Errorf("%d contacts, the last at %s, and the last list began at %s", contacts, st.LastContact, begun)
		}
		g.stop()
	})
}

// TestListsAreDeniedToo checks that a resource whose lists are also denied, such as a deleted custom resource, is
// resumed once it is served again. Issue 38, G.
func TestListsAreDeniedToo(t *testing.T) {
	for name, fault := range deniedErrors() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(g.compared(nil, nil))
				g.sleep(time.Minute)
				g.s.mu.Lock()
				g.s.onList = func(request) (runtime.Object, error) { return nil, fault }
				g.s.mu.Unlock()
				g.denyWatches(fault)
				for range 100 {
					g.sleep(time.Second)
					if st := g.r.Status(); st.ListOnly || st.Live || !errors.Is(st.Err, fault) {
						t.Fatalf("status %+v", st)
					}
				}
				g.s.mu.Lock()
				g.s.onList = nil
				g.s.mu.Unlock()
				g.allowWatches()
				g.s.put("a/x", "2")
				g.sleep(time.Minute)
				g.converged()
				if st := g.r.Status(); !st.Live || st.Lists != 1 {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

func TestListOnlyForAWhile(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.sleep(time.Minute)
		for range 20 {
			g.denyWatches(apierrors.NewForbidden(things, "", errors.New("no")))
			g.sleep(10 * time.Second)
			if st := g.r.Status(); !st.ListOnly || st.Live {
				t.Errorf("denied: status %+v", st)
			}
			g.allowWatches()
			g.sleep(time.Minute)
			g.s.put("a/x", "2")
			g.sleep(time.Minute)
			g.converged()
		}
		if st := g.r.Status(); st.Lists != 1 || st.ListOnly || !st.Live || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestListOnlyAfterARestart: an unconfirmed run lists at once, so that it does not sync later than client-go.
func TestListOnlyAfterARestart(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.put("a/x", "2")
			g.denyWatches(apierrors.NewMethodNotSupported(things, "watch"))
		}, reflector.Options{RelistSpread: time.Hour})
		g.converged()
		if st := g.r.Status(); st.Lists != 1 || !st.ListOnly || g.m.syncs() != 1 {
			t.Errorf("status %+v, %d syncs", st, g.m.syncs())
		}
		g.stop()
	})
}

func TestNeitherListedNorWatched(t *testing.T) {
	bubble(t, func(g *rig) {
		denied := apierrors.NewForbidden(things, "", errors.New("no"))
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.denyWatches(denied)
		g.sleep(2 * time.Minute)
		g.s.mu.Lock()
		n := 0
		g.s.onList = func(request) (runtime.Object, error) {
			if n++; n > 1000 {
				time.Sleep(time.Minute) // if lists do not wait, time advances here, so that the test ends
			}
			return nil, denied
		}
		g.s.mu.Unlock()
		g.sleep(10 * time.Minute)
		if n < 20 || n > 80 {
			t.Errorf("%d requests in ten minutes", n)
		}
		if st := g.r.Status(); st.ListOnly || !errors.Is(st.Err, denied) {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

func TestListOnlyIsSpread(t *testing.T) {
	bubble(t, func(g *rig) {
		times := g.listTimes()
		g.denyWatches(apierrors.NewMethodNotSupported(things, "watch"))
		g.s.put("a/x", "1")
		g.start(reflector.Options{RelistSpread: time.Hour})
		g.sleep(24 * time.Hour)
		if n := len(*times); n < 24 || n > 100 {
			t.Errorf("%d lists in a day", n)
		}
		g.stop()
	})
}

// TestListOnlyWithoutResourceVersion checks a server whose lists have no resourceVersion, such as metrics.k8s.io: no
// watch is tried between two lists.
func TestListOnlyWithoutResourceVersion(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noListRV = true
		times := g.listTimes()
		g.denyWatches(apierrors.NewMethodNotSupported(things, "watch"))
		g.start(reflector.Options{})
		for n := range 50 {
			g.s.put("a/x", fmt.Sprint(n))
			g.sleep(61 * time.Second)
			g.converged()
		}
		for n := range len(*times) - 1 {
			if wait := (*times)[n+1].Sub((*times)[n]); wait < 30*time.Second || wait > time.Minute {
				t.Errorf("%s between two lists", wait)
			}
		}
		if st := g.r.Status(); st.Watches != st.Lists || !st.ListOnly {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestListOnlyByMetadata checks that a resource that cannot be watched is listed by metadata where that pays. Without a
// watch the list is the state at one resourceVersion only if no fetched object has changed meanwhile; otherwise whole
// objects are listed.
func TestListOnlyByMetadata(t *testing.T) {
	bubble(t, func(g *rig) {
		meta := &metadata{s: g.s}
		g.fill(60)
		g.denyWatches(apierrors.NewMethodNotSupported(things, "watch"))
		g.start(reflector.Options{PageSize: 20, ListMetadata: meta.list})
		g.m.forget()
		g.change(3, 25)
		g.s.remove("a/40")
		g.sleep(61 * time.Second)
		g.converged()
		g.wantWhole(2, 2)
		if st := g.r.Status(); meta.lists == 0 || st.Relists[reflector.ReasonListOnly] == 0 {
			t.Errorf("%d lists by metadata, status %+v", meta.lists, st)
		}

		// The object changes whenever it has been fetched.
		fetched := 0
		g.s.mu.Lock()
		g.s.afterList = func(r request) {
			if r.Limit == 1 && strings.Contains(r.FieldSelector, "metadata.name=05") {
				fetched++
				g.s.put("a/05", fmt.Sprint("later ", fetched))
			}
		}
		g.s.onList = func(r request) (runtime.Object, error) {
			if r.Limit == 1 && strings.Contains(r.FieldSelector, "metadata.name=05") {
				g.s.put("a/05", fmt.Sprint("meanwhile ", fetched))
			}
			return nil, nil
		}
		g.s.mu.Unlock()
		g.change(5)
		g.sleep(61 * time.Second)
		g.converged()
		if st := g.r.Status(); fetched != 1 || !st.ListOnly || !strings.Contains(fmt.Sprint(st.Err), "watch") {
			t.Errorf("fetched %d times, status %+v", fetched, st)
		}
		g.sleep(10 * time.Minute)
		synctest.Wait()
		if fetched != 1 {
			t.Errorf("fetched %d times", fetched)
		}
		g.converged()
		g.stop()
	})
}
