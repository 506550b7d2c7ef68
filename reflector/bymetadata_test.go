package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/reflector"
)

// metadata is a scripted Options.ListMetadata. refuse, if set, is the error of every list, and refuseOne the error of
// every request for a single object.
type metadata struct {
	s                 *server
	lists             int
	refuse, refuseOne error
}

func (m *metadata) list(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	m.s.mu.Lock()
	if o.Limit != 1 {
		m.lists++
	}
	refuse := m.refuse
	if o.Limit == 1 {
		refuse = m.refuseOne
	}
	m.s.mu.Unlock()
	if refuse != nil {
		m.s.log(request{ListOptions: o})
		return nil, refuse
	}
	whole, err := m.s.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	items := whole.(*corev1.ConfigMapList)
	out := &metav1.PartialObjectMetadataList{ListMeta: items.ListMeta}
	for _, cm := range items.Items {
		out.Items = append(out.Items, metav1.PartialObjectMetadata{ObjectMeta: cm.ObjectMeta})
	}
	return out, nil
}

// missed stops the reflector, runs change, and compacts the server's history, so that the restart has to list.
func (g *rig) missed(change func(), o reflector.Options) {
	g.t.Helper()
	g.restart(func() { change(); g.s.compact() }, o)
}

func (g *rig) change(numbers ...int) {
	for _, n := range numbers {
		g.s.put(fmt.Sprintf("a/%02d", n), "2")
	}
}

// wantWhole checks that n whole objects were delivered in pages, and that fetched of them were requested one by one.
func (g *rig) wantWhole(n, fetched int) {
	g.t.Helper()
	got := 0
	for _, line := range g.m.lines() {
		var items int
		if _, err := fmt.Sscanf(line, "PAGE %d", &items); err == nil {
			got += items
		}
	}
	if st := g.r.Status(); got != n || st.Fetches != fetched {
		g.t.Errorf("%d whole objects, %d of them fetched alone; want %d and %d; calls %q", got, st.Fetches, n, fetched,
			g.m.lines())
	}
}

func TestListByMetadata(t *testing.T) {
	bubble(t, func(g *rig) {
		meta := &metadata{s: g.s}
		o := reflector.Options{PageSize: 20, ListMetadata: meta.list}
		g.fill(60)
		g.start(o)
		if meta.lists != 0 {
			t.Error("the first list came by metadata")
		}
		g.missed(func() {
			g.change(3, 25, 59)
			g.s.put("a/031", "1")
			g.s.remove("a/40")
			g.s.remove("a/41")
			g.s.remove("a/42")
			g.s.put("a/42", "again")
		}, o)
		g.sleep(10 * time.Second)
		g.converged()
		g.wantWhole(5, 5)
		if st := g.r.Status(); meta.lists != 3 || st.Pages != 3 || st.Relists[reflector.ReasonExpired] != 1 ||
			st.Err != nil || st.State != reflector.Watch {
			t.Errorf("%d lists by metadata, status %+v", meta.lists, st)
		}
		g.stop()
	})
}

func TestListByMetadataOfTheSame(t *testing.T) {
	bubble(t, func(g *rig) {
		o := reflector.Options{ListMetadata: (&metadata{s: g.s}).list}
		g.fill(30)
		g.start(o)
		g.missed(func() { g.s.other(5) }, o)
		g.sleep(10 * time.Second)
		g.converged()
		g.wantWhole(0, 0)
		if l := g.m.lines(); count(l, "END 135") != 1 {
			t.Errorf("sink calls %q", l)
		}
		g.stop()
	})
}

// TestMuchHasChanged checks that whole objects are listed once more than a quarter of a page has changed.
func TestMuchHasChanged(t *testing.T) {
	bubble(t, func(g *rig) {
		meta := &metadata{s: g.s}
		o := reflector.Options{PageSize: 20, ListMetadata: meta.list}
		g.fill(60)
		g.start(o)
		g.missed(func() { g.change(1, 20, 21, 22, 23, 24, 25, 50) }, o)
		g.sleep(10 * time.Second)
		g.converged()
		g.wantWhole(1+40, 1)
		if st := g.r.Status(); meta.lists != 2 || st.Pages != 4 {
			t.Errorf("%d lists by metadata, status %+v", meta.lists, st)
		}
		g.stop()
	})
}

func (g *rig) onFetch(f func(n int, key string) error) {
	n := 0
	g.s.onList = func(r request) (runtime.Object, error) {
		if r.Limit != 1 || r.FieldSelector == "" || g.m.betweenLists() {
			return nil, nil
		}
		n++
		_, rest, _ := strings.Cut(r.FieldSelector, "metadata.name=")
		name, _, _ := strings.Cut(rest, ",")
		return nil, f(n, "a/"+name)
	}
}

func (m *memory) betweenLists() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replace == nil
}

// TestObjectsMoveOnWhileTheyAreFetched checks that a list by metadata ends when its watch has delivered later changes.
func TestObjectsMoveOnWhileTheyAreFetched(t *testing.T) {
	for name, change := range map[string]func(g *rig, key string){
		"changed":   func(g *rig, key string) { g.s.put(key, "3") },
		"gone":      func(g *rig, key string) { g.s.remove(key) },
		"gone, new": func(g *rig, key string) { g.s.remove(key); g.s.put(key, "3") },
		"others": func(g *rig, _ string) {
			g.s.remove("a/04")
			g.s.put("a/05", "3")
			g.s.put("a/29", "3")
			g.s.remove("a/20")
			g.s.put("a/30", "3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := reflector.Options{PageSize: 10, ListMetadata: (&metadata{s: g.s}).list}
				g.fill(30)
				g.start(o)
				g.onFetch(func(_ int, key string) error {
					change(g, key)
					return nil
				})
				g.missed(func() { g.change(3, 14, 29) }, o)
				g.sleep(time.Minute)
				g.converged()
				if st := g.r.Status(); st.Relists[reflector.ReasonExpired] != 1 || st.Err != nil {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

// TestListByMetadataEndsWhereTheWatchIs checks that a list by metadata does not end before its watch has reached the
// resourceVersion of each fetched object.
func TestListByMetadataEndsWhereTheWatchIs(t *testing.T) {
	for name, change := range map[string]func(g *rig, key string){
		"changed": func(g *rig, key string) { g.s.put(key, "3") },
		"gone":    func(g *rig, key string) { g.s.remove(key) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := reflector.Options{ListMetadata: (&metadata{s: g.s}).list}
				g.fill(30)
				g.start(o)
				g.onFetch(func(n int, key string) error {
					time.Sleep(time.Second) // the watch must be open before the fetch
					g.s.mute()
					g.s.put("a/05", "unseen")
					change(g, key)
					return nil
				})
				ends := 0
				g.m.onSynced = func(rv string) {
					ends++
					held := map[string]string{}
					for key, cm := range g.m.objects {
						held[key] = digest(cm)
					}
					if want := g.s.stateAt(rv); !maps.Equal(held, want) {
						t.Errorf("at %s: held %v, want %v", rv, held, want)
					}
				}
				g.missed(func() { g.change(29) }, o)
				g.sleep(10 * time.Minute)
				g.converged()
				if ends == 0 {
					t.Error("never synced")
				}
				g.stop()
			})
		})
	}
}

// TestHistoryEndsWhileObjectsAreFetched checks that a list by metadata survives a compaction, since its watch is open.
func TestHistoryEndsWhileObjectsAreFetched(t *testing.T) {
	bubble(t, func(g *rig) {
		o := reflector.Options{ListMetadata: (&metadata{s: g.s}).list}
		g.fill(30)
		g.start(o)
		g.onFetch(func(n int, _ string) error {
			time.Sleep(time.Second)
			if n == 2 {
				g.s.put("a/05", "3")
				g.s.remove("a/06")
				g.s.compact()
			}
			return nil
		})
		g.missed(func() { g.change(3, 14, 29) }, o)
		g.sleep(time.Minute)
		g.converged()
		if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 0 {
			t.Errorf("sink calls %q", l)
		}
		g.stop()
	})
}

func TestFetchFails(t *testing.T) {
	for name, fault := range map[string]error{
		"refused": errRefused, "500": apierrors.NewInternalError(errors.New("boom")), "cut": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := reflector.Options{PageSize: 10, ListMetadata: (&metadata{s: g.s}).list}
				g.fill(30)
				g.start(o)
				g.onFetch(func(n int, _ string) error {
					if n == 2 || n == 3 || n == 5 {
						return fault
					}
					return nil
				})
				g.missed(func() { g.change(3, 14, 29) }, o)
				g.sleep(5 * time.Minute)
				g.converged()
				g.wantWhole(3, 6)
				if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 0 {
					t.Errorf("sink calls %q", l)
				}
				g.stop()
			})
		})
	}
}

// TestMetadataRefused checks that whole objects are listed if metadata are refused, and which refusals are retried.
func TestMetadataRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse, refuseOne error
		lists             int
	}{
		"406":               {apierrors.NewGenericServerResponse(406, "get", things, "", "no", 0, true), nil, 1},
		"400":               {apierrors.NewBadRequest("no"), nil, 1},
		"403":               {apierrors.NewForbidden(things, "", errors.New("no")), nil, 2},
		"no uid":            {nil, nil, 1},
		"406 of one object": {errRefused, apierrors.NewGenericServerResponse(406, "get", things, "", "no", 0, true), 0},
		"403 of one object": {apierrors.NewForbidden(things, "", errors.New("no")),
			apierrors.NewForbidden(things, "", errors.New("no")), 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				meta := &metadata{s: g.s, refuse: tt.refuse, refuseOne: tt.refuseOne}
				o := reflector.Options{ListMetadata: meta.list}
				if tt.refuse == nil {
					o.ListMetadata = func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
						list, err := meta.list(ctx, o)
						if len(list.Items) > 3 {
							list.Items[3].UID = ""
						}
						return list, err
					}
				}
				g.fill(30)
				g.start(o)
				g.missed(func() { g.change(3) }, o)
				g.sleep(10 * time.Second)
				g.converged()
				g.wantWhole(30, 0)
				g.s.cut(nil)
				g.s.compact()
				g.sleep(10 * time.Minute)
				g.r.Relist(reflector.ReasonStore)
				g.sleep(time.Minute)
				g.converged()
				if meta.lists != tt.lists {
					t.Errorf("%d lists by metadata, want %d", meta.lists, tt.lists)
				}
				g.stop()
			})
		})
	}
}

// TestFetchOfAnother checks that whole objects are listed if the ListerWatcher overwrites the field selector.
func TestFetchOfAnother(t *testing.T) {
	bubble(t, func(g *rig) {
		o := reflector.Options{PageSize: 10, ListMetadata: (&metadata{s: g.s}).list}
		g.fill(30)
		g.start(o)
		g.missed(func() { g.change(14); g.s.fixedSelector = "metadata.namespace=a"; g.m.relist = reflector.ReasonStore }, o)
		g.sleep(time.Minute)
		if l := g.m.lines(); count(l, "BEGIN") != 2 || count(l, "ABORT") != 1 || count(l, "END") != 1 || !g.m.equal(g.s) {
			t.Errorf("sink calls %q", l)
		}
		g.stop()
	})
}

// TestWhenMetadataDoNot checks that a list requests whole objects if it has to replace every stored object, or if
// MetadataPays returns false.
func TestWhenMetadataDoNot(t *testing.T) {
	for _, reason := range []reflector.Reason{reflector.ReasonAhead, reflector.ReasonRewound, reflector.ReasonCluster,
		reflector.ReasonCodec, reflector.ReasonTransform, reflector.ReasonOpenAPI, reflector.ReasonExpired} {
		bubble(t, func(g *rig) {
			meta := &metadata{s: g.s}
			o := reflector.Options{ListMetadata: meta.list,
				MetadataPays: func(context.Context) bool { return reason != reflector.ReasonExpired }}
			g.fill(10)
			g.start(o)
			g.m.forget()
			g.r.Relist(reason)
			g.sleep(time.Second)
			g.wantWhole(10, 0)
			if meta.lists != 0 {
				t.Errorf("%s: a list by metadata", reason)
			}
			g.stop()
		})
	}
}
