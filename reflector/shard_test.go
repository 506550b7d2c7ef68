package reflector_test

import (
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

	"github.com/larder-dev/larder/reflector"
)

func (g *rig) sharded(supported bool, o reflector.Options) reflector.Options {
	g.s.view, g.s.supportsShards = half, supported
	o.Shard = half
	return o
}

func (g *rig) create(ours bool, key string) {
	g.s.nextIn(ours)
	g.s.put(key, "1")
}

func (g *rig) wantUnsharded(want bool) {
	g.t.Helper()
	if st := g.r.Status(); (st.Unsharded != "") != want || st.Skipped != 0 || st.Stray != nil || st.NoLookups != "" {
		g.t.Errorf("status %+v", st)
	}
}

// TestShard checks that the Sink holds exactly the objects of its shard, even if the server ignores the selector.
func TestShard(t *testing.T) {
	for _, supported := range []bool{true, false} {
		t.Run(fmt.Sprintf("supported %v", supported), func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := g.sharded(supported, reflector.Options{PageSize: 10})
				g.fill(50)
				change := func(value string) {
					for i := range 25 {
						key := fmt.Sprintf("a/%02d", i)
						if i%5 == 0 {
							g.s.remove(key)
							continue
						}
						g.s.put(key, value)
					}
					for i := range 5 {
						// A recreated object has another UID, so about half of the objects move to another shard.
						g.s.put(fmt.Sprintf("a/%02d", 5*i), value)
					}
				}
				g.start(o)
				g.sleep(10 * time.Second)
				if n := len(g.m.state()); n < 10 || n > 40 {
					t.Errorf("the shard has %d of 50 objects: the test tests nothing", n)
				}
				g.converged()
				g.wantUnsharded(!supported)
				change("2")
				g.sleep(time.Second)
				g.converged()
				g.restart(func() { change("3") }, o)
				g.sleep(10 * time.Second)
				g.wantNoList()
				g.wantUnsharded(!supported)
				g.restart(func() { change("4"); g.s.compact() }, o)
				g.sleep(10 * time.Second)
				g.wantRelist(reflector.ReasonExpired)
				g.wantUnsharded(!supported)
				g.stop()
			})
		})
	}
}

// TestForeignEvents checks that events of other shards are not delivered, but advance the watch.
func TestForeignEvents(t *testing.T) {
	bubble(t, func(g *rig) {
		o := g.sharded(false, reflector.Options{})
		g.create(true, "a/x")
		g.create(false, "a/y")
		g.start(o)
		g.wantLog("BEGIN Cold", "PAGE 1", "END 102", "SYNCED")
		g.m.forget()
		g.s.put("a/y", "2")
		g.s.remove("a/y")
		g.create(false, "a/z")
		g.sleep(time.Second)
		g.wantLog()
		if st := g.r.Status(); st.ResourceVersion != "105" || st.State != reflector.Watch {
			t.Errorf("status %+v", st)
		}
		g.s.other(1)
		g.sleep(time.Minute)
		g.wantLog("BOOKMARK 106")
		g.m.forget()
		// The object is recreated in another shard, and then in the reflector's shard.
		g.s.remove("a/x")
		g.create(false, "a/x")
		g.s.put("a/x", "2")
		g.s.remove("a/x")
		g.create(true, "a/x")
		g.sleep(time.Second)
		g.wantLog("DELETED a/x 107", "ADDED a/x 111")
		g.converged()
		// After a lost connection the watch resumes behind the events of other shards, which were dropped.
		g.s.put("a/z", "2")
		g.sleep(time.Second)
		g.m.forget()
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(5 * time.Second)
		seen := g.s.seen()
		watched := slices.DeleteFunc(seen, func(r request) bool { return !r.Watch })
		if last := watched[len(watched)-1]; last.ResourceVersion != "112" {
			t.Errorf("asked for %s", asJSON(last))
		}
		g.wantUnsharded(true)
		g.stop()
	})
}

// TestForeignEventsOfAList checks that events of other shards advance the watch beside a list. The objects of their
// keys are taken from the pages.
func TestForeignEventsOfAList(t *testing.T) {
	bubble(t, func(g *rig) {
		o := g.sharded(false, reflector.Options{PageSize: 10})
		g.fill(30)
		g.create(true, "a/50")
		g.create(false, "a/51")
		g.atPage(4, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.remove("a/50")
			g.create(false, "a/50")
			g.s.remove("a/51")
			g.create(true, "a/51")
			g.create(false, "a/52")
			time.Sleep(time.Second)
			return nil
		})
		g.start(o)
		g.sleep(5 * time.Second)
		g.converged()
		log := g.m.lines()
		if !slices.Contains(log, "END 137") || count(log, "DELETED a/50") != 1 || count(log, "ADDED a/51") != 1 ||
			count(log, "ADDED a/5")+count(log, "DELETED a/5") != 2 {
			t.Errorf("sink calls %q", log)
		}
		g.stop()
	})
}

// TestGuardOfAShard checks that an object that has moved to another shard counts as deleted. Without a DELETED event
// for it, the server was restored from a backup.
func TestGuardOfAShard(t *testing.T) {
	for _, supported := range []bool{true, false} {
		for _, rewound := range []bool{false, true} {
			t.Run(fmt.Sprintf("supported %v, rewound %v", supported, rewound), func(t *testing.T) {
				bubble(t, func(g *rig) {
					o := g.sharded(supported, reflector.Options{})
					g.create(true, "a/w")
					b := g.s.backup()
					g.create(true, "a/x")
					g.start(o)
					g.restart(func() {
						if rewound {
							g.s.restore(b)
							g.s.other(20)
						} else {
							g.s.remove("a/x")
						}
						g.create(false, "a/x")
					}, o)
					g.sleep(10 * time.Second)
					if rewound {
						g.wantRelist(reflector.ReasonRewound)
					} else {
						g.wantNoList()
					}
					if st := g.r.Status(); st.NoLookups != "" || st.Lookups == 0 {
						t.Errorf("status %+v", st)
					}
					g.stop()
				})
			})
		}
	}
}

// TestListOfAnotherShard checks that a list with only objects of other shards counts as an empty shard if there are few
// objects, and otherwise as the list of another shard.
func TestListOfAnotherShard(t *testing.T) {
	for _, n := range []int{5, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := g.sharded(false, reflector.Options{PageSize: 10})
				g.create(true, "a/x")
				g.start(o)
				g.restart(func() {
					g.s.remove("a/x")
					for i := range n {
						g.create(false, fmt.Sprintf("a/%03d", i))
					}
					g.s.compact()
				}, o)
				g.sleep(5 * time.Second)
				st := g.r.Status()
				if n < 10 {
					g.wantRelist(reflector.ReasonExpired)
					g.wantUnsharded(true)
					g.stop()
					return
				}
				if !errors.Is(st.Err, reflector.ErrStrays) || !strings.Contains(st.Err.Error(), half.String()) ||
					st.State != reflector.Degraded || len(g.m.state()) != 1 {
					t.Errorf("status %+v, the sink holds %v", st, g.m.state())
				}
				if l := g.m.lines(); count(l, "ABORT") == 0 || count(l, "END") != 0 {
					t.Errorf("sink calls %q", l)
				}
				g.create(true, "b/x")
				g.sleep(10 * time.Minute)
				g.converged()
				if st := g.r.Status(); st.Err != nil {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

// TestBusyForeigners checks that many events about few objects do not make a list look like another shard's.
func TestBusyForeigners(t *testing.T) {
	bubble(t, func(g *rig) {
		o := g.sharded(false, reflector.Options{PageSize: 2})
		for i := range 6 {
			g.create(false, fmt.Sprintf("a/%d", i))
		}
		g.atPage(3, func() error { // by the third page the watch beside the list is open
			for i := range 200 {
				g.s.put(fmt.Sprintf("a/%d", i%6), "2")
			}
			time.Sleep(time.Second)
			return nil
		})
		g.start(o)
		g.sleep(2 * time.Second)
		g.wantUnsharded(true)
		if st := g.r.Status(); st.State != reflector.Watch || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestNoUIDs: objects without a UID all have the same hash, but do not make a list look like another shard's.
func TestNoUIDs(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.onList = func(request) (runtime.Object, error) {
			l := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}}
			for i := range 300 {
				l.Items = append(l.Items,
					corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i), ResourceVersion: "9"}})
			}
			return l, nil
		}
		g.start(g.sharded(false, reflector.Options{}))
		g.wantLog("BEGIN Cold", "END 100", "SYNCED")
		g.wantUnsharded(true)
		g.s.onList = nil
		g.stop()
	})
}

// TestEmptyPages checks pages without objects, which a server may send if it applies the limit before the selector.
func TestEmptyPages(t *testing.T) {
	bubble(t, func(g *rig) {
		o := g.sharded(true, reflector.Options{PageSize: 10})
		for i := range 20 {
			g.create(true, fmt.Sprintf("a/%02d", i))
		}
		first := true
		g.s.onList = func(r request) (runtime.Object, error) {
			if !first || r.Continue == "" {
				return nil, nil
			}
			first = false
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "120", Continue: r.Continue}}, nil
		}
		g.start(o)
		g.wantLog("BEGIN Cold", "PAGE 10", "PAGE 10", "END 120", "SYNCED")
		if st := g.r.Status(); st.Pages != 3 {
			t.Errorf("status %+v", st)
		}
		g.converged()
		g.wantUnsharded(false)
		g.stop()
	})
}

func TestShardIsSupportedLater(t *testing.T) {
	bubble(t, func(g *rig) {
		o := g.sharded(false, reflector.Options{})
		g.fill(20)
		g.start(o)
		g.wantUnsharded(true)
		g.s.mu.Lock()
		g.s.supportsShards = true
		g.s.mu.Unlock()
		g.r.Relist(reflector.ReasonStore)
		g.sleep(time.Minute)
		g.wantRelist(reflector.ReasonStore)
		g.wantUnsharded(false)
		g.stop()
	})
}
