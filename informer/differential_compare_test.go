package informer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer"
)

// evidence adds to the current phase of a script the events that can make the two informers differ, such as lists and
// refused pods.
func (r *runner) evidence() *phase {
	ph := &r.ph
	r.w.mu.Lock()
	if ph.poisoned == nil {
		ph.poisoned = map[string]bool{}
	}
	if r.s.config.transform == "fail" {
		for _, h := range r.w.history[ph.firstChange:] {
			if h.poisoned {
				ph.poisoned[h.key] = true
			}
		}
		for _, key := range r.w.poisonedLocked() {
			ph.poisoned[key] = true
		}
	}
	for n, f := range r.w.fronts {
		ph.lists[n] = f.lists[min(ph.firstList[n], len(f.lists)):]
		if ph.cold && len(ph.lists[n]) > 0 && (n == 1 || !ph.restarted) {
			ph.lists[n] = ph.lists[n][1:]
		}
		ph.lost = ph.lost || len(f.handed) > ph.firstHanded[n] || len(ph.lists[n]) > 0
	}
	r.w.mu.Unlock()
	for n, s := range r.sides {
		s.mu.Lock()
		ph.lost = ph.lost || len(s.others) > ph.firstOther[n]
		s.mu.Unlock()
	}
	for _, p := range r.sides[0].taps {
		if s, ours := informer.StatusOf(p.reg); ours {
			ph.flooded = ph.flooded || s.Merged != p.merged
			p.merged = s.Merged
		}
	}
	ph.paged = ph.cold && r.s.config.pageDelay > 0
	r.drifted = r.drifted || len(ph.lists[1]) > 0 || ph.cold && !ph.calm()
	return ph
}

// calm reports whether the times of all calls in this phase are certain. A lost connection or a merged call, for
// example, makes them uncertain.
func (ph *phase) calm() bool {
	return !ph.racing && !ph.restarted && !ph.lost && !ph.paged && !ph.flooded && len(ph.poisoned) == 0
}

// compareNow compares the two informers' visible state, if the phase permits no difference in time.
func (r *runner) compareNow(when string) {
	if !r.evidence().calm() {
		return
	}
	ours, theirs := r.sides[0].observe(), r.sides[1].observe()
	if !slices.Equal(ours, theirs) {
		if rule := r.permittingRule(ours, theirs); rule != "" {
			r.count["rule "+rule]++
			return
		}
		r.failf("%s:\n   ours       %s\n   client-go  %s", when, strings.Join(ours, "\n              "),
			strings.Join(theirs, "\n              "))
	}
	r.count["moments compared"]++
}

// permittingRule returns the name of the compatibility rule that explains why the visible states of the two informers
// differ; "" if no rule does.
func (r *runner) permittingRule(ours, theirs []string) string {
	slow := slices.ContainsFunc(r.sides[1].taps,
		func(p *tap) bool { return p.spec.slow != "" && (r.ph.cutOff || p.removed) })
	same := func(words ...string) bool { return slices.Equal(until(ours, words...), until(theirs, words...)) }
	switch {
	case r.resyncing() && same(", busy"):
		return "resync-clock" // only one of the two handlers may be busy with a resync call
	case slow && same(", stopped", ": synced"):
		return "key-order" // the run may have ended before or after the end of a slow replay of stored objects
	case r.panicked() && same(", stopped", ", busy"), r.panicked() && slow && same(", stopped", ", busy", ": synced"):
		return "crash-pause" // after a panic the two handlers are busy, and the two runs end, at different times
	}
	return ""
}

// resyncing reports whether a handler is in a resync call while the two informers resync at different times.
func (r *runner) resyncing() bool {
	return r.drifted && slices.ContainsFunc(slices.Concat(r.sides[0].taps, r.sides[1].taps), (*tap).resyncing)
}

func (r *runner) panicked() bool {
	return slices.ContainsFunc(r.sides[1].taps, func(p *tap) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.panicked > 0
	})
}

// until cuts each line before the first occurrence of one of the given words.
func until(lines []string, words ...string) (out []string) {
	for _, line := range lines {
		for _, word := range words {
			line, _, _ = strings.Cut(line, word)
		}
		out = append(out, line)
	}
	return out
}

// waitIdle waits until both compared informers are up to date and their handlers are idle. Then it compares everything.
func (r *runner) waitIdle() {
	if r.sides[0].runs == 0 || r.sides[0].ended() {
		return
	}
	r.unblock()
	synctest.Wait()
	ended := false
	for n, before := 0, -1; ; n++ {
		if !ended && (!r.evidence().calm() || len(r.ph.poisoned) > 0) {
			r.endFaults()
			ended = true
		}
		if r.upToDate() && r.news() == before {
			break
		}
		if n > 600 {
			r.failf("not up to date after half an hour: ours %v %q, client-go %v %q, the servers %q",
				r.idle(0), r.sides[0].stored(), r.idle(1), r.sides[1].stored(), r.w.state(r.s.config.transformer()))
			return
		}
		before = r.news()
		time.Sleep(3 * time.Second) // longer than slow handler calls and pauses after panics
		synctest.Wait()
	}
	if r.panicked() && r.uneven() {
		time.Sleep(crashPause)
		synctest.Wait()
	}
	r.compareNow("settled")
	r.comparePhase(true)
}

// news counts the calls of both informers' handlers that have reported a new state of an object.
func (r *runner) news() (n int) {
	for _, s := range r.sides {
		for _, p := range s.taps {
			p.mu.Lock()
			n += p.news
			p.mu.Unlock()
		}
	}
	return n
}

func (r *runner) uneven() bool {
	for n, p := range r.sides[0].taps {
		if p.made() != r.sides[1].taps[n].made() {
			return true
		}
	}
	return false
}

func (r *runner) unblock() {
	for _, s := range r.sides {
		for _, p := range s.taps {
			p.unblock()
		}
	}
}

// endFaults ends the scheduled server faults after they have occurred, and replaces the pods that the transform
// refuses. client-go cannot list while a refused pod exists, and keeps a deleted refused pod until the next list.
func (r *runner) endFaults() {
	time.Sleep(90 * time.Second)
	poisoned := len(r.ph.poisoned) > 0
	r.w.mu.Lock()
	keys := r.w.poisonedLocked()
	r.w.mu.Unlock()
	for _, key := range keys {
		if poisoned {
			r.w.write(key, "77")
		}
	}
	eachFront := func(fn func(f *front)) {
		r.w.mu.Lock()
		for _, f := range r.w.fronts {
			fn(f)
		}
		r.w.mu.Unlock()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
	}
	eachFront(func(f *front) {
		f.down = ""
		clear(f.faults)
	})
	if poisoned {
		eachFront(func(f *front) {
			for s := range f.streams {
				s.failLocked("410")
			}
		})
	}
	r.evidence()
}

func (r *runner) idle(side int) bool {
	return !slices.ContainsFunc(r.sides[side].taps, func(p *tap) bool { return !p.idle() })
}

func (r *runner) upToDate() bool {
	want := r.w.state(r.s.config.transformer())
	for n, s := range r.sides {
		if !s.inf.HasSynced() || !r.idle(n) || !slices.Equal(s.stored(), want) {
			return false
		}
	}
	return true
}

// comparePhase compares everything that happened in the phase, and begins the next phase. live says that both informers
// are up to date.
func (r *runner) comparePhase(live bool) {
	ph := r.evidence()
	ph.paths = r.w.paths(r.s.config.transformer())
	r.tally()
	for n, p := range r.sides[0].taps {
		r.compareTaps(n, p, r.sides[1].taps[n], live)
	}
	if live {
		r.compareErrors()
		r.compareStores()
	}
	next := phase{cutOff: r.ph.cutOff, racing: r.ph.cutOff && !ph.calm()}
	r.w.mu.Lock()
	next.firstChange = len(r.w.history)
	for n, f := range r.w.fronts {
		next.firstList[n], next.firstHanded[n] = len(f.lists), len(f.handed)
		s := r.sides[n]
		s.mu.Lock()
		next.firstOther[n] = len(s.others)
		s.reported = nil
		if !ph.calm() && s.syncedAt >= 0 {
			s.syncedAt = 0 // the informers have synced at different times, which are not compared
		}
		s.mu.Unlock()
	}
	r.w.mu.Unlock()
	r.ph = next
}

func (r *runner) compareTaps(n int, ours, theirs *tap, live bool) {
	our, held := ours.take()
	their, _ := theirs.take()
	c := comparison{
		phase: &r.ph, our: our, their: their, held: held, ourWalk: ours.walk, theirWalk: theirs.walk,
		panicked: theirs.panicked, drifted: r.drifted, blind: ours.spec.blind(), replayCut: ours.removed || r.ph.cutOff,
	}
	r.count["calls"] += len(c.our)
	for _, gone := range c.our {
		// A delete call with a tombstone without an object means that the handler never got that object. Scripts do not lose
		// objects, so no compatibility rule permits this.
		if gone.typ == "gone" && gone.old == "" {
			r.failf("handler %d, %v, received a delete of %s, which never existed", n, ours.spec, gone.key)
		}
	}
	whole := live && !ours.removed
	if !c.calm() && (!whole || ours.spec.partial()) {
		// Our informer may be behind or ahead of client-go's, so their calls cannot be compared one by one.
		if stray := c.stray(); !ours.spec.partial() && len(stray) > 0 {
			r.failf("handler %d, %v, received changes that did not happen:\n   %s", n, ours.spec, strings.Join(stray, "\n   "))
		}
		r.count["handlers followed or left out: ended, or not told everything, while connections were lost"]++
	} else if needed, ok := c.explain(); !ok {
		a, b := c.with(needed)
		r.failf("handler %d, %v, with %s:\n%s", n, ours.spec, names(needed), sideBySide(a, b))
	} else {
		r.count["handlers compared"]++
		if c.calm() && len(c.our) > 0 {
			r.count["handlers compared call by call, with times"]++
		}
		for _, rule := range needed {
			r.count["rule "+rule.name]++
		}
	}
	for whose, early := range map[string]bool{"our": ours.early(), "client-go's": theirs.early()} {
		if early {
			r.failf("handler %d: a call of the initial list came after %s registration had synced", n, whose)
		}
	}
	if a, b := withoutLag(ours.logged()), theirs.logged(); r.ph.calm() && live && !slices.Equal(a, b) {
		r.failf("handler %d: ours logged %q, client-go %q", n, a, b)
	}
	if !c.calm() && (ours.panicked+theirs.panicked > 0 || ours.removed) && ours.reg.HasSynced() != theirs.reg.HasSynced() {
		// Only one informer may have synced this registration: a call of the initial list panicked at one informer only, or
		// the handler was removed before its sync.
		ours.uncertain, theirs.uncertain = true, true
	}
	if live {
		ours.walk.reachEnd(r.ph.paths)
		theirs.walk.reachEnd(r.ph.paths)
	}
}

// withoutLag removes the log lines about slow handlers, which client-go does not write (rule merged-updates in
// docs/compatibility.md).
func withoutLag(lines []string) []string {
	return slices.DeleteFunc(lines, func(s string) bool { return strings.Contains(s, "Event handler ") })
}

func names(rs []rule) string {
	var out []string
	for _, r := range rs {
		out = append(out, r.name)
	}
	return fmt.Sprintf("the rules %q", out)
}

func sideBySide(ours, theirs []string) string {
	var b strings.Builder
	same := 0
	for same < min(len(ours), len(theirs)) && ours[same] == theirs[same] {
		same++
	}
	fmt.Fprintf(&b, "   (%d calls are the same)\n", same)
	for n := same; n < max(len(ours), len(theirs)); n++ {
		a, t := "-", "-"
		if n < len(ours) {
			a = ours[n]
		}
		if n < len(theirs) {
			t = theirs[n]
		}
		fmt.Fprintf(&b, "   ours       %s\n   client-go  %s\n", a, t)
	}
	return b.String()
}

func (r *runner) compareStores() {
	want := r.w.state(r.s.config.transformer())
	for _, s := range r.sides {
		if got := s.stored(); !slices.Equal(got, want) {
			r.failf("%s holds\n   %q, the servers have\n   %q", s.name, got, want)
		}
	}
	if a, b := r.sides[0].lookups(), r.sides[1].lookups(); !slices.Equal(a, b) {
		r.failf("indexes:\n%s", sideBySide(a, b))
	}
	r.compareObjects()
	r.compareVersions()
}
