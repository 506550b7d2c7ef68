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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// TestFold checks that changes during a list are delivered as events, whether their pages were listed before or not.
func TestFold(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(3, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.put("a/05", "2")
			g.s.remove("a/06")
			g.s.put("a/25", "2")
			g.s.remove("a/26")
			g.s.put("a/99", "1")
			g.s.remove("a/10")
			g.s.put("a/10", "again")
			time.Sleep(time.Second)
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(5 * time.Second)
		g.converged()
		log := g.m.lines()
		if end := slices.Index(log, "END 137"); end < 0 ||
			count(log[:end], "ADDED")+count(log[:end], "MODIFIED")+count(log[:end], "DELETED") != 7 {
			t.Errorf("sink calls %q", log)
		}
		if st := g.r.Status(); st.Pages != 3 || st.Watches != 1 || st.ResourceVersion != "137" {
			t.Errorf("status %+v", st)
		}
		// The deleted objects must not be looked up, or a healthy server would seem restored from a backup.
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(10 * time.Second)
		if st := g.r.Status(); st.Pages != 3 || st.Lookups != 5 || len(st.Relists) != 0 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestTokenExpires checks that a list continues with the newer token that the server offers, and ends when the watch
// has reached that token's resourceVersion.
func TestTokenExpires(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(2, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.mu.Lock()
			g.s.snapshots = map[int][]*corev1.ConfigMap{} // only continue tokens expire; the watch's history remains
			g.s.mu.Unlock()
			g.s.put("a/05", "2")
			g.s.remove("a/06")
			g.s.put("a/25", "2")
			g.s.remove("a/26")
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(10 * time.Second)
		g.converged()
		st := g.r.Status()
		if st.ResourceVersion != "134" || len(st.Relists) != 0 || len(g.errs) != 0 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 0 {
			t.Errorf("sink calls %q", l)
		}
		g.stop()
	})
}

// TestTokenExpiresAndTheWatchLags checks that a list with pages newer than the watch beside it ends only when the watch
// has reached their resourceVersion.
func TestTokenExpiresAndTheWatchLags(t *testing.T) {
	for _, byBookmark := range []bool{false, true} {
		t.Run(fmt.Sprintf("by bookmark %v", byBookmark), func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(30)
				g.s.onWatch = func(_ context.Context, r request) (watch.Interface, error) {
					if *r.TimeoutSeconds > 10 {
						return nil, apierrors.NewTooManyRequests("later", 10)
					}
					return nil, nil
				}
				g.atPage(2, func() error {
					time.Sleep(time.Second) // the watch is refused for the first second
					g.s.mu.Lock()
					g.s.snapshots = map[int][]*corev1.ConfigMap{}
					g.s.mu.Unlock()
					g.s.remove("a/01")
					g.s.put("a/25", "2")
					if byBookmark {
						g.s.other(10)
					}
					return nil
				})
				g.start(reflector.Options{PageSize: 10})
				g.sleep(2 * time.Second)
				if l := g.m.lines(); count(l, "PAGE") < 3 || count(l, "END") != 0 {
					t.Errorf("sink calls %q", l)
				}
				g.sleep(60 * time.Second)
				g.converged()
				if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "END 1") != 1 || slices.Contains(l, "END 130") {
					t.Errorf("sink calls %q", l)
				}
				g.s.onWatch = nil
				g.sleep(60 * time.Second)
				g.stop()
			})
		})
	}
}

// TestFoldedWatchBreaks checks that the watch beside a list is opened again at its resourceVersion after an error.
func TestFoldedWatchBreaks(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(3, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.put("a/00", "2")
			time.Sleep(100 * time.Millisecond)
			g.s.cut(apierrors.NewInternalError(errors.New("boom")))
			g.s.put("a/01", "2")
			time.Sleep(5 * time.Second)
			g.s.put("a/02", "2")
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(20 * time.Second)
		g.converged()
		if l := g.m.lines(); !slices.Contains(l, "END 133") || count(l, "BEGIN") != 1 {
			t.Errorf("sink calls %q", l)
		}
		var at []string
		for _, r := range g.s.seen() {
			if r.Watch {
				at = append(at, r.ResourceVersion)
			}
		}
		if !slices.Equal(at, []string{"130", "131"}) {
			t.Errorf("watched at %v", at)
		}
		if st := g.r.Status(); st.Resumes != 1 || st.Err != nil || len(g.errs) != 1 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

// TestFoldedWatchExpires checks that pages of one resourceVersion complete a list although its watch has expired. The
// next watch expires and causes a list.
func TestFoldedWatchExpires(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(3, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.put("a/00", "2")
			time.Sleep(100 * time.Millisecond)
			g.s.withoutEvents(func() { g.s.put("a/01", "2") })
			g.s.cut(apierrors.NewResourceExpired("too old"))
			g.s.mu.Lock()
			g.s.floor = g.s.rv
			g.s.history = nil
			g.s.mu.Unlock()
			time.Sleep(time.Second)
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(20 * time.Second)
		g.converged()
		if l := g.m.lines(); count(l, "BEGIN Cold") != 1 || count(l, "END") != 2 || count(l, "BEGIN Expired") != 1 ||
			count(l, "ABORT") != 0 {
			t.Errorf("sink calls %q", l)
		}
		// The watch beside the list and the next watch have one error each.
		g.wantErrs("too old", "too old resource version: 131 (132)")
		g.stop()
	})
}

// TestFoldedWatchAndTokenExpire checks that the list starts again if both its watch and its continue token expire: the
// remaining pages would be of another state.
func TestFoldedWatchAndTokenExpire(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(2, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.put("a/00", "2")
			g.s.cut(apierrors.NewResourceExpired("too old"))
			g.s.compact()
			time.Sleep(time.Second)
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(20 * time.Second)
		g.converged()
		if l := g.m.lines(); count(l, "BEGIN Cold") != 2 || count(l, "END") != 1 || count(l, "ABORT") != 1 {
			t.Errorf("sink calls %q", l)
		}
		if st := g.r.Status(); len(st.Relists) != 0 || st.Resumes != 0 || st.Pages != 2+3 || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		g.wantErrs("too old", "continue parameter is too old") // each error is reported once
		g.stop()
	})
}

// TestFoldedWatchExpiresAfterTheToken checks that the list starts again if some pages are newer than its expired watch.
func TestFoldedWatchExpiresAfterTheToken(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		pages := 0
		g.s.onList = func(r request) (runtime.Object, error) {
			pages++
			time.Sleep(100 * time.Millisecond)
			switch pages {
			case 2:
				g.s.mu.Lock()
				g.s.snapshots = map[int][]*corev1.ConfigMap{}
				g.s.mu.Unlock()
				g.s.mute()
				g.s.put("a/00", "2")
			case 4:
				g.s.compact()
			}
			return nil, nil
		}
		g.start(reflector.Options{PageSize: 10})
		g.sleep(10 * time.Minute)
		g.converged()
		if l := g.m.lines(); count(l, "BEGIN Cold") != 2 || count(l, "END") != 1 || count(l, "ABORT") != 1 {
			t.Errorf("sink calls %q", l)
		}
		g.wantErrs("too old resource version: 130 (131)")
		g.stop()
	})
}

// TestFoldedWatchExpiredIsInTheStatus checks that a list continues although its watch has expired.
func TestFoldedWatchExpiredIsInTheStatus(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(3, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.cut(apierrors.NewResourceExpired("too old"))
			time.Sleep(time.Minute)
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(10 * time.Second)
		if st := g.r.Status(); st.State != reflector.Relist || !apierrors.IsResourceExpired(st.Err) {
			t.Errorf("status %+v", st)
		}
		g.wantErrs("too old")
		g.sleep(time.Minute)
		g.converged()
		if st := g.r.Status(); st.State != reflector.Watch || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

func (g *rig) wantErrs(texts ...string) {
	g.t.Helper()
	if len(g.errs) != len(texts) {
		g.t.Errorf("OnError received %v, want %q", g.errs, texts)
		return
	}
	for n, text := range texts {
		if !strings.Contains(g.errs[n].Error(), text) {
			g.t.Errorf("OnError received %v, want %q", g.errs[n], text)
		}
	}
}

// TestResumeOfTheFoldedWatchIsTakenBack checks that an answer 200 that a 410 follows does not count as a resume.
func TestResumeOfTheFoldedWatchIsTakenBack(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(3, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.cut(apierrors.NewInternalError(errors.New("boom")))
			g.s.put("a/00", "2")
			g.s.mu.Lock()
			g.s.floor, g.s.history = g.s.rv, nil
			g.s.mu.Unlock()
			time.Sleep(time.Second)
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(20 * time.Second)
		g.converged()
		if st := g.r.Status(); st.Resumes != 0 || st.Relists[reflector.ReasonExpired] != 1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

func (g *rig) stuck(d time.Duration) {
	until := time.Now().Add(d)
	pages := 0
	g.s.onList = func(r request) (runtime.Object, error) {
		if pages++; pages > 2 && time.Now().Before(until) {
			return nil, errRefused
		}
		return nil, nil
	}
}

// TestFoldedWatchIsDead checks that the watch beside a list is replaced if it is silent while the pages are slow.
func TestFoldedWatchIsDead(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.stuck(5 * time.Minute)
		g.start(reflector.Options{PageSize: 10})
		g.sleep(time.Second)
		g.s.mute()
		g.s.put("a/00", "2")
		g.sleep(3 * time.Minute)
		if l := g.m.lines(); count(l, "MODIFIED a/00") != 1 || count(l, "END") != 0 {
			t.Errorf("sink calls %q", l)
		}
		g.sleep(5 * time.Minute)
		g.converged()
		g.stop()
	})
}

// TestFoldedWatchIsShort checks that a back-off follows a watch beside a list that ends right after it began.
func TestFoldedWatchIsShort(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.stuck(5 * time.Minute)
		g.s.onWatch = func(ctx context.Context, r request) (watch.Interface, error) {
			w, err := g.s.watch(ctx, r)
			g.s.cut(nil)
			return w, err
		}
		g.start(reflector.Options{PageSize: 10})
		g.sleep(4 * time.Minute)
		if st := g.r.Status(); st.Watches < 5 || st.Watches > 60 || !errors.Is(st.Err, errRefused) {
			t.Errorf("status %+v", st)
		}
		g.s.onWatch = nil
		g.sleep(5 * time.Minute)
		g.converged()
		g.stop()
	})
}

// TestTokenExpiresWithoutBookmarks checks that a list whose last pages are newer than its watch ends after several
// silent watches, if the server sends no bookmarks that could prove the watch's progress.
func TestTokenExpiresWithoutBookmarks(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noBookmarks = true
		g.fill(30)
		g.atPage(2, func() error {
			g.s.mu.Lock()
			g.s.snapshots = map[int][]*corev1.ConfigMap{}
			g.s.mu.Unlock()
			g.s.other(10)
			return nil
		})
		g.start(reflector.Options{PageSize: 10})
		g.sleep(11 * time.Second)
		if n := count(g.m.lines(), "END"); n != 0 {
			t.Error("ended early")
		}
		g.sleep(5 * time.Second)
		g.converged()
		if l := g.m.lines(); count(l, "END 130") != 1 || count(l, "BEGIN") != 1 {
			t.Errorf("sink calls %q", l)
		}
		g.stop()
	})
}
