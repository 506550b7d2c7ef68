package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

func (g *rig) fill(n int) {
	for i := range n {
		g.s.put(fmt.Sprintf("a/%02d", i), "1")
	}
}

func (g *rig) atPage(n int, f func() error) {
	seen := 0
	g.s.onList = func(r request) (runtime.Object, error) {
		if r.probe() {
			return nil, nil
		}
		if seen++; seen == n {
			return nil, f()
		}
		return nil, nil
	}
}

func count(lines []string, prefix string) (n int) {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func TestPages(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(25)
		g.start(reflector.Options{PageSize: 10})
		g.wantLog("BEGIN Cold", "PAGE 10", "PAGE 10", "PAGE 5", "END 125", "SYNCED")
		g.converged()
		if st := g.r.Status(); st.Lists != 1 || st.Pages != 3 || st.Watches != 1 || st.Resumes != 0 ||
			st.State != reflector.Watch {
			t.Errorf("status %+v", st)
		}
		for _, r := range g.s.seen() {
			if r.Watch {
				if r.ResourceVersion != "125" || *r.TimeoutSeconds < 300 {
					t.Errorf("watched with %s", asJSON(r))
				}
			} else if r.Limit != 10 || r.ResourceVersion != "" || r.ResourceVersionMatch != "" {
				t.Errorf("listed with %s", asJSON(r))
			}
		}
		// After a list the watch beside it continues, without another request.
		g.s.put("a/00", "2")
		g.sleep(0)
		g.converged()
		g.stop()
	})
}

// TestOnePageAhead checks that only the next page is fetched while the Sink is storing a page.
func TestOnePageAhead(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(50)
		taken := 0
		g.m.onPage = func() {
			time.Sleep(time.Second)
			taken++
			if lists, _, _ := g.s.counts(); lists != min(taken+1, 5) {
				t.Errorf("%d pages asked for when %d had been taken", lists, taken)
			}
		}
		g.start(reflector.Options{PageSize: 10})
		g.sleep(time.Minute)
		g.converged()
		if taken != 5 {
			t.Errorf("%d pages", taken)
		}
		g.stop()
	})
}

func TestServerIgnoresLimit(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.ignoreLimit = true
		g.fill(25)
		g.start(reflector.Options{PageSize: 10})
		g.wantLog("BEGIN Cold", "PAGE 10", "PAGE 10", "PAGE 5", "END 125", "SYNCED")
		g.restart(func() { g.s.put("a/03", "2") }, reflector.Options{PageSize: 10})
		g.sleep(5 * time.Second)
		g.wantNoList()
		g.stop()
	})
}

// TestErrorsOfPages checks that a failed page, or a smaller page, is requested again, without a new list.
func TestErrorsOfPages(t *testing.T) {
	for name, fault := range transportErrors() {
		if apierrors.IsBadRequest(fault) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(25)
				left := 3
				g.s.onList = func(r request) (runtime.Object, error) {
					if r.Continue != "" && left > 0 {
						left--
						return nil, fault
					}
					return nil, nil
				}
				g.start(reflector.Options{PageSize: 10})
				if st := g.r.Status(); !errors.Is(st.Err, fault) || st.State != reflector.Relist {
					t.Errorf("status %+v", st)
				}
				g.sleep(time.Minute)
				g.converged()
				pages := 3
				if reflector.IsCut(fault) {
					pages = 5
				}
				if st := g.r.Status(); st.Pages != pages+3 || st.Err != nil || len(g.errs) != 3 {
					t.Errorf("status %+v, errors %v", st, g.errs)
				}
				if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 0 || count(l, "PAGE") != pages {
					t.Errorf("sink calls %q", l)
				}
				g.stop()
			})
		})
	}
}

func TestErrorsOfTheFirstPage(t *testing.T) {
	faults := transportErrors()
	for k, v := range deniedErrors() {
		faults[k] = v
	}
	faults["410"] = apierrors.NewResourceExpired("odd")
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(5)
				left := 3
				g.s.onList = func(request) (runtime.Object, error) {
					if left > 0 {
						left--
						return nil, fault
					}
					return nil, nil
				}
				g.start(reflector.Options{})
				g.wantLog()
				g.sleep(2 * time.Minute)
				if l := g.m.lines(); !slices.Equal(l[:4], []string{"BEGIN Cold", "PAGE 5", "END 105", "SYNCED"}) {
					t.Errorf("sink calls %q", l)
				}
				if st := g.r.Status(); st.Lists != 4 || st.Err != nil || len(g.errs) != 3 {
					t.Errorf("status %+v, errors %v", st, g.errs)
				}
				g.stop()
			})
		})
	}
}

func TestTokenIsNoGood(t *testing.T) {
	faults := map[string]error{
		"410 without a token": apierrors.NewResourceExpired("no"),
		"400":                 apierrors.NewBadRequest("continue key is not valid"),
		"too large":           apierrors.NewTimeoutError("Too large resource version: 5, current: 4", 1),
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(25)
				g.start(reflector.Options{PageSize: 10})
				g.m.forget()
				g.atPage(2, func() error { return fault })
				g.r.Relist(reflector.ReasonStore)
				g.sleep(10 * time.Second)
				g.converged()
				if l := g.m.lines(); count(l, "BEGIN StoreIncomplete") != 2 || count(l, "ABORT") != 1 || count(l, "END") != 1 {
					t.Errorf("sink calls %q", l)
				}
				if st := g.r.Status(); st.Relists[reflector.ReasonStore] != 2 || len(st.Relists) != 1 || st.Err != nil {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

// TestRelistDuringAList checks that a list that Relist requests during another list follows that list, without waiting
// for a watch that is still being opened.
func TestRelistDuringAList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(15)
		n := 0
		g.s.onWatch = func(ctx context.Context, _ request) (watch.Interface, error) {
			if n++; n == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		}
		g.atPage(2, func() error { g.r.Relist(reflector.ReasonTransform); return nil })
		g.start(reflector.Options{PageSize: 10})
		g.sleep(time.Second)
		g.wantLog("BEGIN Cold", "PAGE 10", "PAGE 5", "END 115", "SYNCED", "BEGIN TransformChanged", "PAGE 10", "PAGE 5",
			"END 115", "SYNCED")
		g.stop()
	})
}

// TestStopWhileListing checks that Run returns at any point of a list, and leaves no goroutine.
func TestStopWhileListing(t *testing.T) {
	for name, setup := range map[string]func(g *rig){
		"a page hangs": func(g *rig) {
			g.s.afterList = nil
			g.lwHangs = true
		},
		"a page waits for its retry": func(g *rig) { g.atPage(2, func() error { return errRefused }) },
		"the watch hangs": func(g *rig) {
			g.s.onWatch = func(ctx context.Context, _ request) (watch.Interface, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			g.atPage(2, func() error { return errRefused })
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(25)
				setup(g)
				g.start(reflector.Options{PageSize: 10})
				g.stop()
				if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 1 || count(l, "END") != 0 {
					t.Errorf("sink calls %q", l)
				}
			})
		})
	}
}

// TestVersionsOfItemsDoNotCount checks that the Sink receives the list's resourceVersion, not that of an item.
func TestVersionsOfItemsDoNotCount(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.other(50)
		g.start(reflector.Options{})
		if rv := g.r.LastSyncResourceVersion(); rv != "151" {
			t.Errorf("at %s", rv)
		}
		g.stop()
	})
}

// TestListOfStraysOnly checks that a list is aborted and retried if all its objects are of an unexpected type or scope.
func TestListOfStraysOnly(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.onList = func(r request) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: make([]corev1.Pod, 3)}, nil
		}
		g.start(reflector.Options{ExpectedType: &corev1.ConfigMap{}})
		st := g.r.Status()
		if st.Skipped != 3 || !errors.Is(st.Err, reflector.ErrStrays) || !errors.Is(st.Stray, reflector.ErrStrays) ||
			!strings.Contains(st.Err.Error(), "*v1.Pod where the example object is *v1.ConfigMap") {
			t.Errorf("status %+v", st)
		}
		g.wantLog("BEGIN Cold", "ABORT")
		g.s.onList = nil
		g.s.put("a/x", "1")
		g.sleep(10 * time.Minute)
		g.converged()
		if st := g.r.Status(); st.Err != nil || st.Stray != nil {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestStraysOfAList checks that a list with some strays delivers the other objects, but no resourceVersion.
func TestStraysOfAList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.put("a/y", "1")
		g.start(reflector.Options{Admit: func(obj runtime.Object) error {
			if obj.(*corev1.ConfigMap).Name == "y" {
				return errors.New("no y")
			}
			return nil
		}})
		g.wantLog("BEGIN Cold", "PAGE 1", "END ", "SYNCED")
		g.m.forget()
		g.s.put("a/z", "1")
		g.s.remove("a/z")
		g.s.remove("a/y")
		g.sleep(3 * time.Minute)
		g.wantLog("ADDED a/z ", "DELETED a/z ", "DELETED a/y ")
		if st := g.r.Status(); st.Err != nil || st.Stray == nil || st.Stray.Error() != "object a/y: no y" || st.Skipped != 1 {
			t.Errorf("status %+v", st)
		}
		g.m.forget()
		g.r.Relist(reflector.ReasonStore)
		g.sleep(time.Second)
		g.wantLog("BEGIN StoreIncomplete", "PAGE 1", "END 105", "SYNCED")
		if st := g.r.Status(); st.Stray != nil {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

func TestRetryAfterOfABrokenList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(15)
		g.atPage(2, func() error { return apierrors.NewTimeoutError("Too large resource version: 5, current: 4", 20) })
		g.start(reflector.Options{PageSize: 10})
		g.sleep(19 * time.Second)
		if n := count(g.m.lines(), "BEGIN"); n != 1 {
			t.Errorf("listed %d times before the time that the server named", n)
		}
		g.sleep(3 * time.Second)
		g.converged()
		g.stop()
	})
}

// TestTokenIsAlwaysRefused checks that a server that refuses every continue token, and offers no other, is listed in
// one answer, as by client-go's pager. Servers that keep their history in a database answer a token of a compacted
// revision with another code than 410. Issue 38.
func TestTokenIsAlwaysRefused(t *testing.T) {
	for name, fault := range map[string]error{
		"410": apierrors.NewResourceExpired("no"),
		"400": apierrors.NewBadRequest("continue key is not valid"),
		"500": apierrors.NewInternalError(errors.New(compacted)),
	} {
		for _, byMetadata := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s by metadata %v", name, byMetadata), func(t *testing.T) {
				bubble(t, func(g *rig) {
					g.fill(25)
					o := reflector.Options{PageSize: 10}
					if byMetadata {
						o.ListMetadata = (&metadata{s: g.s}).list
					}
					g.start(o)
					g.s.mu.Lock()
					whole := 0
					g.s.onList = func(r request) (runtime.Object, error) {
						if r.Continue != "" {
							return nil, fault
						}
						if r.Limit == 0 {
							whole++
						}
						return nil, nil
					}
					g.s.mu.Unlock()
					for n := range 3 {
						g.change(3, 20)
						g.s.compact()
						g.s.cut(gone())
						g.sleep(5 * time.Minute)
						g.converged()
						if st := g.r.Status(); !st.Live || whole != n+1 {
							t.Errorf("listed %d times in one answer, status %+v", whole, st)
						}
					}
					g.stop()
				})
			})
		}
	}
}
