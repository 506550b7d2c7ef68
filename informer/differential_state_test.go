package informer_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

func (r *runner) compareObjects() {
	var all [2][]*corev1.Pod
	for n, s := range r.sides {
		for _, obj := range s.inf.GetStore().List() {
			all[n] = append(all[n], obj.(*corev1.Pod))
		}
		slices.SortFunc(all[n], func(a, b *corev1.Pod) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	}
	if !apiequality.Semantic.DeepEqual(all[0], all[1]) {
		r.failf("stored objects differ in content:\n   ours       %v\n   client-go  %v", all[0], all[1])
	}
}

// compareVersions compares the informers' resourceVersions: immediately if all changes had events, otherwise after a
// bookmark. Without a bookmark they may differ once other resources have advanced the server's resourceVersion. Watches
// have random time-outs, so only one informer may have received a bookmark.
func (r *runner) compareVersions() {
	compare := func(when string) {
		ours, ourStore := r.sides[0].rvs()
		theirs, theirStore := r.sides[1].rvs()
		if ours != theirs || ourStore != theirStore {
			r.failf("%s: resourceVersions of reflector and store: ours %d, %d, client-go's %d, %d", when, ours, ourStore, theirs,
				theirStore)
		}
	}
	if !r.moved {
		compare("settled")
	}
	r.moved = false
	r.w.bookmark()
	synctest.Wait()
	compare("after a bookmark")
}

// compareErrors checks that each informer's watch error handler received the errors of the informer's server.
func (r *runner) compareErrors() {
	for n, s := range r.sides {
		r.w.mu.Lock()
		met := slices.Clone(r.w.fronts[n].handed[r.ph.firstHanded[n]:])
		r.w.mu.Unlock()
		s.mu.Lock()
		reported, others := slices.Clone(s.reported), s.others[r.ph.firstOther[n]:]
		s.mu.Unlock()
		beside := r.s.config.pageSize < 500 && (r.ph.cold || len(r.ph.lists[0]) > 0)
		want, maybe := expectedErrors(met, n == 1, beside)
		if n == 1 && len(want)+len(maybe) < len(met) {
			r.count["rule errors-told"]++
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(id int) bool { return slices.Contains(reported, id) })
		extra := slices.DeleteFunc(slices.Clone(reported),
			func(id int) bool { return slices.Contains(want, id) || slices.Contains(maybe, id) })
		slices.Sort(reported)
		if len(missing) > 0 || len(extra) > 0 || len(slices.Compact(slices.Clone(reported))) != len(reported) {
			r.failf("%s: errors met %+v, told to the watch error handler %v: missing %v, not expected %v", s.name, met, reported,
				missing, extra)
		}
		for _, text := range others {
			r.otherError(n, text)
		}
	}
}

// otherError checks an error of a watch error handler that no server sent.
func (r *runner) otherError(n int, text string) {
	switch {
	case n == 0 && strings.Contains(text, "ended right after it began"):
		r.count["rule errors-told"]++
	case n == 1 && strings.Contains(text, "the transform fails on poison") && len(r.ph.poisoned) > 0:
		r.count["rule failing-transform"]++
	default:
		r.failf("%s: an error that nobody sent: %s", r.sides[n].name, text)
	}
}

// expectedErrors returns the ids of the errors that the watch error handler must receive, and of errors that it may
// receive. Our informer reports every error, except errors of a watch that runs beside a list which no longer needs it.
// client-go does not report errors after which it only retries (rule errors-told in docs/compatibility.md).
func expectedErrors(met []handed, clientGo, beside bool) (want, maybe []int) {
	for _, h := range met {
		switch {
		case !clientGo && beside && (h.verb == "watch" || h.verb == "event"):
			maybe = append(maybe, h.id)
		case !clientGo:
			want = append(want, h.id)
		case h.verb == "event", h.verb == "watchlist":
		case h.verb == "watch" && (h.how == "refused" || h.how == "429"):
		case h.verb == "list" && h.how == "410":
			// client-go lists again, and reports this error only if the second list fails too.
			maybe = append(maybe, h.id)
		default:
			want = append(want, h.id)
		}
	}
	return want, maybe
}

// tally counts what happened in this phase of the script, for the test's table of coverage.
func (r *runner) tally() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for n, f := range r.w.fronts {
		name := r.sides[n].name
		r.count["relists of "+name] += len(r.ph.lists[n])
		for _, h := range f.handed[r.ph.firstHanded[n]:] {
			r.count[fmt.Sprintf("errors met by %s: %s by a %s", name, h.how, h.verb)]++
		}
	}
	kinds := map[bool]string{true: "calm phases", false: "disturbed phases"}
	r.count[kinds[r.ph.calm()]]++
}
