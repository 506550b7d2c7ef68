package reflector_test

import (
	"slices"
	"testing"

	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/reflector"
)

func (l *live) lists() (queries []string) {
	for _, r := range l.s.Log() {
		if r.Resource == configMaps.Resource && r.Verb == "list" {
			r.Query.Del("continue")
			queries = append(queries, r.Query.Encode())
		}
	}
	return queries
}

func (l *live) relist() {
	l.t.Helper()
	l.stop()
	l.m.forget()
	l.s.ResetCounts()
	l.put("cm-001", "2")
	l.remove("cm-002")
	l.s.Compact()
	l.start()
	l.wait("synced and equal", func() bool { return l.m.syncs() > 0 && l.equal() })
	if st := l.r.Status(); st.Relists[reflector.ReasonExpired] != 1 || len(st.Relists) != 1 {
		l.t.Errorf("status %+v", st)
	}
	l.wait("counted by both", l.counted)
}

// counted reports whether the server has counted as many requests as the reflector. The request for a watch beside a
// list may arrive after the list has ended.
func (l *live) counted() bool {
	st, c := l.r.Status(), l.s.Counts(configMaps)
	return st.Pages == c.Lists && st.Probes == c.Probes && st.Watches == c.Watches
}

func TestLiveLists(t *testing.T) {
	want := []string{"limit=20", "limit=20", "limit=20"}
	l := newLive(t, 50)
	if got := l.lists(); !slices.Equal(got, want) {
		t.Errorf("cold: asked for %q, want %q", got, want)
	}
	l.wait("counted by both", l.counted)
	l.relist()
	if got := l.lists(); !slices.Equal(got, want) {
		t.Errorf("after a 410: asked for %q, want %q", got, want)
	}
}

// TestLivePagesCut checks that pages shrink if every long answer is cut off, from the first page on or later.
func TestLivePagesCut(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"reset": {Break: fakeapi.BreakReset}, "EOF": {Break: fakeapi.BreakEOF}, "reset later": {Break: fakeapi.BreakReset, After: 2},
		"EOF later": {Break: fakeapi.BreakEOF, After: 2},
	} {
		t.Run(name, func(t *testing.T) {
			// Answers are cut off after 5,000 bytes: 20 objects are smaller than that, 40 objects are larger.
			fault.Verb, fault.AfterBytes = "list", 5000
			l := newLive(t, 200, func(l *live) {
				l.o.PageSize = 40
				l.s.InjectFault(fault)
			})
			lines := l.m.lines()
			if n := count(lines, "BEGIN"); n != 1 || count(lines, "PAGE 20") != 10-2*fault.After ||
				count(lines, "PAGE 40") != fault.After {
				t.Errorf("sink calls %q", lines)
			}
			if got := l.lists(); len(got) > 13 || slices.Contains(got, "limit=10") {
				t.Errorf("asked for %q", got)
			}
			l.wait("counted by both", l.counted)
		})
	}
}
