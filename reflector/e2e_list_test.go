package reflector_test

import (
	"slices"
	"testing"

	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/reflector"
)

// lists returns the queries of the requests that list: of lists, and of watches with initial events.
func (l *live) lists() (queries []string) {
	for _, r := range l.s.Log() {
		switch {
		case r.Resource != configMaps.Resource:
		case r.Verb == "list":
			r.Query.Del("continue")
			queries = append(queries, r.Query.Encode())
		case r.Verb == "watch" && r.Query.Get("sendInitialEvents") != "":
			queries = append(queries, "watch "+r.Query.Get("resourceVersion")+r.Query.Get("resourceVersionMatch"))
		}
	}
	return queries
}

// relist makes the reflector list after a compaction.
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

func watchListed(l *live) { l.o = reflector.WithStreams(l.o) }

func versioned(v string) func(l *live) {
	return func(l *live) {
		l.s.SetVersion(v)
	}
}

// TestLiveLists checks the requests of lists, cold and after a 410, by version of the server.
func TestLiveLists(t *testing.T) {
	const page, watchList = "limit=20", "watch NotOlderThan"
	for _, tt := range []struct {
		name        string
		before      []func(l *live)
		cold, after []string
	}{
		{"by default", nil, []string{page, page, page}, []string{page, page, page}},
		{"v1.36 by watch", []func(*live){versioned("v1.36.0"), watchListed}, []string{watchList}, []string{watchList}},
		{"v1.33 refuses that", []func(*live){watchListed, versioned("v1.33.0")},
			[]string{watchList, page, page, page}, []string{watchList, page, page, page}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLive(t, 50, tt.before...)
			if got := l.lists(); !slices.Equal(got, tt.cold) {
				t.Errorf("cold: asked for %q, want %q", got, tt.cold)
			}
			l.wait("counted by both", l.counted)
			l.relist()
			if got := l.lists(); !slices.Equal(got, tt.after) {
				t.Errorf("after a 410: asked for %q, want %q", got, tt.after)
			}
		})
	}
}

// TestLiveWatchListBreaks checks that a list by a watch whose connection breaks is requested again, and that the sink
// sees an aborted list and nothing else.
func TestLiveWatchListBreaks(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"reset": {Verb: "watch", Times: 1, Break: fakeapi.BreakReset, AfterEvents: 30},
		"EOF":   {Verb: "watch", Times: 1, Break: fakeapi.BreakEOF, AfterEvents: 30},
		"410":   {Verb: "watch", Times: 1, Status: 410, Reason: "Expired", InStream: true, AfterEvents: 30},
		"429":   {Verb: "watch", Times: 1, Status: 429, Reason: "TooManyRequests"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, 50, watchListed, func(l *live) { l.s.InjectFault(fault) })
			if st := l.r.Status(); st.Lists != 0 || st.Watches != 2 {
				t.Errorf("status %+v, requests %q", st, l.s.Requests())
			}
			lines := l.m.lines()
			if n := count(lines, "ABORT"); n != count(lines, "BEGIN")-1 || name != "429" && n != 1 {
				t.Errorf("sink calls %q", lines)
			}
			l.wait("counted by both", l.counted)
			l.put("cm-001", "2")
			l.wait("equal", l.equal)
		})
	}
}

// TestLivePagesCut checks that pages shrink if every long answer is cut off, from the first page on or later.
func TestLivePagesCut(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"reset": {Break: fakeapi.BreakReset}, "EOF": {Break: fakeapi.BreakEOF}, "reset later": {Break: fakeapi.BreakReset, After: 2},
		"EOF later": {Break: fakeapi.BreakEOF, After: 2},
	} {
		t.Run(name, func(t *testing.T) {
			// 20 objects are less than 5,000 bytes, 40 are more.
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
