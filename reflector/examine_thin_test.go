package reflector

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestExamineOverAThinLink: the object takes longer to come than a request has at first. It is waited for, and nothing else is asked for.
func TestExamineOverAThinLink(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/y", "1")
		g.s.put("a/x", "1") // the newest, which the guard against a rewound server looks up if the watch ends meanwhile
		g.startOn(thin{g.s}, Options{})
		g.sleep(time.Minute)
		g.s.lose("a/y", func() { g.s.put("a/y", strings.Repeat("x", 1<<20)) })
		g.r.Examine("a/y")
		g.sleep(10 * time.Minute)
		if got := g.m.repairs(); !slices.Equal(got, []string{"a/y"}) || len(g.limits()) != 1 {
			t.Errorf("repaired %q, with lists of %d", got, g.limits())
		}
		g.large()
		g.stop()
	})
}

// TestExamineCutByTheServer: it takes longer than the server has for an answer, so no time is enough. It comes with a list, as what is as large does.
func TestExamineCutByTheServer(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.put("a/y", "1")
		g.startOn(hasty{thin{g.s}}, Options{})
		g.sleep(time.Minute)
		g.s.lose("a/y", func() { g.s.put("a/y", strings.Repeat("x", 1<<20)) })
		g.r.Examine("a/y", "a/x")
		g.sleep(time.Hour)
		l := g.m.lines()
		if !slices.Contains(l, "EXAMINED a/y Listed") || g.byWatch() != 1 {
			t.Errorf("told %q", l)
		}
		g.large()
		g.stop()
	})
}
