package reflector_test

import (
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// TestLeftOutComesLast: clients of an earlier process may know each state that the server had until now, and none of
// them has the object. So it comes after the last of them, and before Synced.
func TestLeftOutComesLast(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s *server)
		want      []string
	}{
		"nothing happened": {func(*server) {}, []string{"MODIFIED a/x ", "SYNCED"}},
		"others changed": {func(s *server) { s.put("a/y", "1"); s.other(6) },
			[]string{"ADDED a/y 102", "BOOKMARK 108", "MODIFIED a/x ", "SYNCED"}},
		"it changed":     {func(s *server) { s.put("a/x", "2"); s.other(1) }, []string{"MODIFIED a/x 102", "BOOKMARK 103", "SYNCED"}},
		"it was deleted": {func(s *server) { s.remove("a/x") }, []string{"DELETED a/x 102", "SYNCED"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				left := []entry.ObjectRef{{Key: "a/x", UID: "uid-1", ResourceVersion: "101"}}
				g.restart(func() {
					g.m.cp = &reflector.Checkpoint{ResourceVersion: "101", LeftOut: left}
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
