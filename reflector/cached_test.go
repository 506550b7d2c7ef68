package reflector

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// onVersion are options with a server of that version, or a failure to read it.
func onVersion(v string, err error) Options {
	return Options{PageSize: 10, ServerVersion: func(context.Context) (string, error) { return v, err }}
}

// wantLists wants these list requests since the start, as "cached <resourceVersion>" or "page".
func (g *rig) wantLists(want ...string) {
	g.t.Helper()
	var got []string
	for _, r := range g.s.seen() {
		switch {
		case r.Watch || r.probe():
		case r.Limit == 0 && r.ResourceVersionMatch == metav1.ResourceVersionMatchNotOlderThan:
			got = append(got, "cached "+r.ResourceVersion)
		case r.Limit == 10 && r.ResourceVersion == "" && r.ResourceVersionMatch == "":
			got = append(got, "page")
		default:
			got = append(got, asJSON(r))
		}
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("listed by %q, want %q", got, want)
	}
}

// TestListByVersion: what is chosen when.
func TestListByVersion(t *testing.T) {
	pages := []string{"page", "page", "page"}
	for _, tt := range []struct {
		version string
		err     error
		want    []string
	}{
		{"v1.33.9", nil, []string{"cached 0"}},
		{"v1.19.0", nil, []string{"cached 0"}},
		{"v1.33.4-gke.1036000", nil, []string{"cached 0"}},
		{"v1.33.4+k3s1", nil, []string{"cached 0"}},
		{"v1.34.0", nil, pages},
		{"v1.34.0-alpha.1", nil, pages},
		{"v1.36.3-eks-5d632ec", nil, pages},
		{"v2.0.0", nil, pages},
		{"", nil, pages},
		{"unknown", nil, pages},
		{"", errors.New("no"), pages},
	} {
		t.Run(tt.version, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(25)
				g.start(onVersion(tt.version, tt.err))
				g.sleep(5 * time.Second)
				g.wantLists(tt.want...)
				g.converged()
				if l := g.m.lines(); !slices.Equal(l, []string{"BEGIN Cold", "PAGE 10", "PAGE 10", "PAGE 5", "END 125", "SYNCED"}) {
					t.Errorf("told %q", l)
				}
				g.stop()
			})
		})
	}
}

// TestStaleCache: a first list may be old, but synced is only what the server has.
func TestStaleCache(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(25)
		g.s.cacheAt = 120
		g.start(onVersion("v1.33.0", nil))
		g.wantLists("cached 0")
		g.wantLog("BEGIN Cold", "PAGE 10", "PAGE 10", "END 120", "ADDED a/20 121", "ADDED a/21 122", "ADDED a/22 123", "ADDED a/23 124", "ADDED a/24 125", "SYNCED")
		g.converged()
		if st := g.r.Status(); st.Resumes != 0 || st.Lists != 1 || len(st.Relists) != 0 {
			t.Errorf("status %+v", st)
		}
		g.sleep(10 * time.Second)
		g.stop()
	})
}

// TestCacheIsNotBehindUs: a relist never goes back behind what is held, whatever the cache has.
func TestCacheIsNotBehindUs(t *testing.T) {
	old := onVersion("v1.33.0", nil)
	for _, tt := range []struct {
		name   string
		change func(g *rig)
		reason Reason
		want   []string
	}{
		{"not older", func(g *rig) { g.s.compact() }, ReasonExpired, []string{"cached 125"}},
		{"refused as too large", func(g *rig) { g.s.compact(); g.s.cacheAt = 110 }, ReasonExpired, []string{"cached 125", "page", "page", "page"}},
		{"older than asked for", func(g *rig) {
			g.s.compact()
			g.s.onList = func(r request) (runtime.Object, error) {
				if r.ResourceVersion == "" {
					return nil, nil
				}
				g.s.mu.Lock()
				g.s.cacheAt = 110
				g.s.mu.Unlock()
				r.ResourceVersion = "0"
				return g.s.list(r)
			}
		}, ReasonExpired, []string{"cached 125", "page", "page", "page"}},
		{"match refused", func(g *rig) {
			g.s.compact()
			g.s.onList = func(r request) (runtime.Object, error) {
				if r.ResourceVersion == "" {
					return nil, nil
				}
				return nil, apierrors.NewBadRequest("resourceVersionMatch")
			}
		}, ReasonExpired, []string{"cached 125", "page", "page", "page"}},
		{"of another history", func(g *rig) { g.s.rv = 80; g.s.history, g.s.ledger = nil, nil }, ReasonAhead, []string{"page", "page", "page"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(25)
				g.start(old)
				g.restart(func() {
					if tt.reason == ReasonExpired {
						g.s.put("a/30", "1")
					}
					tt.change(g)
				}, old)
				g.sleep(20 * time.Second)
				g.wantRelist(tt.reason)
				g.wantLists(tt.want...)
				g.stop()
			})
		})
	}
}

// TestCachedListFails: the next attempt is by pages, as it may be too large for its time; the list after that is asked of the cache again.
func TestCachedListFails(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(25)
		left := 1
		g.s.onList = func(r request) (runtime.Object, error) {
			if left > 0 {
				left--
				return nil, context.DeadlineExceeded
			}
			return nil, nil
		}
		g.start(onVersion("v1.33.0", nil))
		g.sleep(5 * time.Second)
		g.converged()
		g.wantLists("cached 0", "page", "page", "page")
		g.r.Relist(ReasonStore)
		g.sleep(time.Second)
		g.wantLists("cached 0", "page", "page", "page", "cached 125")
		if st := g.r.Status(); st.Err != nil || len(g.errs) != 1 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

// TestCacheIsNotBehindAListGivenUp: what came of a first list may have been shown.
func TestCacheIsNotBehindAListGivenUp(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(25)
		version := "v1.34.0" // during an upgrade servers of both versions answer
		o := onVersion("", nil)
		o.ServerVersion = func(context.Context) (string, error) { return version, nil }
		g.atPage(2, func() error { version = "v1.33.0"; return apierrors.NewResourceExpired("no") })
		g.start(o)
		g.s.put("a/30", "1")
		g.sleep(5 * time.Second)
		g.converged()
		g.wantLists("page", "page", "cached 125")
		g.stop()
	})
}

// TestVersionThatHangs is not waited for for long.
func TestVersionThatHangs(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(5)
		h := newHook(1, false)
		g.start(Options{PageSize: 10, ServerVersion: func(context.Context) (string, error) { h.call(); return "v1.33.0", nil }})
		g.wantLists()
		g.sleep(versionTimeout + callWait + time.Second)
		g.wantLists("page")
		g.converged()
		g.stop()
		close(h.released)
	})
}

// TestCacheWithoutHistory: a cache that is stuck where no watch can begin is asked once.
func TestCacheWithoutHistory(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(25)
		g.s.cacheAt = 120
		g.s.compact()
		g.start(onVersion("v1.33.0", nil))
		g.sleep(time.Minute)
		g.wantLists("cached 0", "page", "page", "page")
		g.wantRelist(ReasonExpired)
		g.stop()
	})
}
