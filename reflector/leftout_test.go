package reflector_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// TestLeftOutComesLast checks that an object of Checkpoint.LeftOut is delivered after the server's present state and
// before Synced. Clients of an earlier process may know any state so far, without the object.
func TestLeftOutComesLast(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s *server)
		want      []string
	}{
		"nothing happened": {func(*server) {}, []string{"MODIFIED a/x ", "SYNCED"}},
		"others changed": {func(s *server) { s.put("a/y", "1"); s.other(6) },
			[]string{"ADDED a/y 102", "BOOKMARK 108", "MODIFIED a/x ", "SYNCED"}},
		"it changed": {func(s *server) { s.put("a/x", "2"); s.other(1) },
			[]string{"MODIFIED a/x 102", "BOOKMARK 103", "SYNCED"}},
		"it was deleted": {func(s *server) { s.remove("a/x") }, []string{"DELETED a/x 102", "SYNCED"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				g.restart(func() {
					g.m.cp = leftOut("a/x")
					c.meanwhile(g.s)
				}, reflector.Options{})
				g.sleep(10 * time.Second)
				g.wantLog(c.want...)
				if st := g.r.Status(); st.Lists != 0 || !st.Live {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

func leftOut(key string) *reflector.Checkpoint {
	return &reflector.Checkpoint{ResourceVersion: "101", LeftOut: []entry.ObjectRef{{Key: key, UID: "uid-1",
		ResourceVersion: "101"}}}
}

// TestManyLeftOut checks that the watch survives if fetching left-out objects takes longer than its time-out.
func TestManyLeftOut(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(100)
		g.start(reflector.Options{})
		var left []entry.ObjectRef
		for _, cm := range g.s.objects {
			left = append(left, entry.ObjectRef{Key: cm.Namespace + "/" + cm.Name, UID: string(cm.UID),
				ResourceVersion: cm.ResourceVersion})
		}
		g.restart(func() {
			g.m.cp = &reflector.Checkpoint{ResourceVersion: g.m.rv, LeftOut: left}
			g.s.put("b/other", "1")
			g.s.other(6)
			g.s.onList = func(r request) (runtime.Object, error) {
				if r.FieldSelector != "" {
					time.Sleep(100 * time.Millisecond)
				}
				return nil, nil
			}
		}, reflector.Options{})
		g.sleep(time.Minute)
		if st := g.r.Status(); g.m.syncs() != 1 || len(g.errs) > 0 || st.Lists != 0 || st.Lookups != 100 || !st.Live {
			t.Errorf("synced %d times, errors %v, status %+v", g.m.syncs(), g.errs, st)
		}
		g.stop()
	})
}

// TestLeftOutOverdue checks that Status.Err drops ErrOverdue once the request for a left-out object has returned.
func TestLeftOutOverdue(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.m.cp = leftOut("a/x")
		}, reflector.Options{})
		g.stop()
		g.errs = nil
		g.m.cp = leftOut("a/x")
		d := newStuckLister(g.s, func(r request) bool { return r.FieldSelector != "" })
		g.startOn(d, reflector.Options{TypeDescription: "*v1.ConfigMap"})
		g.sleep(requestTimeout + callWait + time.Minute)
		if st := g.r.Status(); !errors.Is(st.Err, reflector.ErrOverdue) {
			t.Errorf("overdue: %+v", st)
		}
		close(d.released)
		g.sleep(2 * time.Minute)
		if st := g.r.Status(); st.Err != nil || !st.Live {
			t.Errorf("returned: %+v", st)
		}
		g.cancel()
		if err := <-g.done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
