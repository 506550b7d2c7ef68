package informer_test

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// rule is one permitted difference between our informer and client-go's, a row of the table in docs/compatibility.md.
type rule struct {
	name string
	// applies reports whether the difference is possible in the compared phase of the script.
	applies func(c *comparison) bool
	// apply modifies one or both logs of calls so that the permitted difference disappears.
	apply func(c *comparison)
}

var rules = []rule{
	// The rule resync-clock comes first. A resync call that only one informer has made splits the sequences of calls that
	// the other rules compare.
	{"resync-clock", func(c *comparison) bool { return c.drifted || c.lost || c.racing }, func(c *comparison) {
		c.our, c.their = slices.DeleteFunc(c.our, call.repeats), slices.DeleteFunc(c.their, call.repeats)
		if c.held {
			c.our, c.their = untimed(c.our), untimed(c.their)
		}
	}},
	{"crash-pause", func(c *comparison) bool { return c.panicked > 0 }, pauseAtOnce},
	{"key-order", always, func(c *comparison) { c.our, c.their = c.inKeyOrder(c.our), c.inKeyOrder(c.their) }},
	{"no-equal-updates", clientGoListed, func(c *comparison) { c.their = slices.DeleteFunc(c.their, call.repeats) }},
	{"merged-updates", func(c *comparison) bool { return c.flooded }, func(c *comparison) {
		c.byKey, c.ourL.merge = true, true
		if c.cold { // an object's first call may report a state from before the run
			c.ourL.first, c.theirL.first = true, true
		}
		c.our, c.their = slices.DeleteFunc(c.our, call.repeats), slices.DeleteFunc(c.their, call.repeats)
	}},
	{"failing-transform", func(c *comparison) bool { return len(c.poisoned) > 0 },
		func(c *comparison) { c.without = c.poisoned }},
	{"page-wise-adds", func(c *comparison) bool { return c.paged },
		func(c *comparison) { c.byKey, c.ourL.first, c.theirL.first = true, true, true }},
	{"restored-objects", func(c *comparison) bool { return c.restarted },
		func(c *comparison) { c.byKey, c.ourL.first, c.theirL.first = true, true, true }},
	{"either-order", func(c *comparison) bool { return c.racing },
		func(c *comparison) { c.byKey, c.ourL.first, c.theirL.first = true, true, true }},
	{"own-moments", func(c *comparison) bool { return c.lost },
		func(c *comparison) { c.byKey, c.ourL.first, c.theirL.first = true, true, true }},
	{"fewer-relists", clientGoListed, func(c *comparison) { c.byKey, c.theirL.lists = true, c.lists[1] }},
	{"list-moments", func(c *comparison) bool { return len(c.lists[0]) > 0 }, func(c *comparison) {
		c.byKey, c.ourL.lists, c.ourL.fold = true, c.lists[0], true
	}},
}

func always(*comparison) bool { return true }

func untimed(calls []call) []call {
	for n := range calls {
		calls[n].at = 0
	}
	return calls
}

func clientGoListed(c *comparison) bool { return len(c.lists[1]) > 0 }

// comparison compares a handler's calls by both informers in one phase of a script.
type comparison struct {
	*phase
	our, their         []call
	ourWalk, theirWalk walk
	panicked           int
	held               bool // held is true if some calls were delayed by blocked or slow calls
	drifted            bool
	blind              bool // blind is true if the handler's methods have no parameter isInInitialList
	// replayCut is true if the handler was removed or stopped, perhaps during a replay of the stored objects or a resync.
	replayCut bool

	// The rules set the fields below.
	byKey        bool            // byKey compares each object's changes of state, without times
	without      map[string]bool // without has the keys of objects that are not compared
	ourL, theirL licence
}

func (c *comparison) lines() (ours, theirs []string) {
	c.our, c.their = without(c.our, c.without), without(c.their, c.without)
	if !c.byKey {
		return rendered(c.our), rendered(c.their)
	}
	// The pod unknownKey has one event, which was sent only on the watches open at that time. One informer may have missed
	// it.
	c.our, c.their = without(c.our, map[string]bool{unknownKey: true}), without(c.their, map[string]bool{unknownKey: true})
	paths := maps.Clone(c.paths)
	for key := range c.without {
		delete(paths, key)
	}
	return c.ourWalk.stepsByKey(paths, c.our, c.ourL), c.theirWalk.stepsByKey(paths, c.their, c.theirL)
}

// with returns both informers' calls as lines to compare, after the given rules are applied.
func (c comparison) with(some []rule) (ours, theirs []string) {
	c.our, c.their = slices.Clone(c.our), slices.Clone(c.their)
	for _, r := range some {
		r.apply(&c)
	}
	return c.lines()
}

func (c comparison) equalWith(some []rule) bool {
	ours, theirs := c.with(some)
	return slices.Equal(ours, theirs) && !slices.ContainsFunc(ours,
		func(s string) bool { return strings.Contains(s, "??") })
}

// explain returns the rules that are needed to make the two logs of calls equal. ok is false if all applicable rules
// together do not suffice.
func (c comparison) explain() (needed []rule, ok bool) {
	for _, r := range rules {
		if c.equalWith(needed) {
			break
		}
		if r.applies(&c) {
			needed = append(needed, r)
		}
	}
	if !c.equalWith(needed) {
		return needed, false
	}
	for n := 0; n < len(needed); {
		if fewer := slices.Delete(slices.Clone(needed), n, n+1); c.equalWith(fewer) {
			needed = fewer
		} else {
			n++
		}
	}
	return needed, true
}

// stray returns the calls of our informer's handler that contradict the objects' history, whichever rules apply. It
// ignores missing calls, because it is used for handlers that have ended.
func (c comparison) stray() (out []string) {
	var some []rule
	for _, r := range rules {
		if r.applies(&c) {
			some = append(some, r)
		}
	}
	c.byKey, c.ourL.first = true, true // the handler may have been registered late
	ours, _ := c.with(some)
	for _, line := range ours {
		if strings.Contains(line, "??") && !strings.Contains(line, unfinished) {
			out = append(out, line)
		}
	}
	return out
}

func rendered(calls []call) (out []string) {
	for _, c := range calls {
		out = append(out, c.String())
	}
	return out
}

func without(calls []call, keys map[string]bool) []call {
	return slices.DeleteFunc(calls, func(c call) bool { return keys[c.key] })
}

// inKeyOrder sorts the sequences of calls that client-go makes in a map's random order: the calls of a replay, a
// watch-list or a resync, and the deletes of a list.
func (c *comparison) inKeyOrder(calls []call) []call {
	out := slices.Clone(calls)
	unordered := func(n call) string { return unordered(n, c.blind) }
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && unordered(out[from]) != "" && unordered(out[to]) == unordered(out[from]) {
			to++
		}
		slices.SortStableFunc(out[from:to], func(a, b call) int { return strings.Compare(a.key, b.key) })
		if run := unordered(out[from]); c.replayCut && to == len(out) && (run == "initial" || run == "repeat" && c.held) {
			return out[:from]
		}
		// A slow handler delays another call of each informer's sequence, so the times cannot be compared.
		for n := from + 1; n < to; n++ {
			out[n].at, out[from].at = 0, 0
		}
		from = to
	}
	return out
}

// unordered names the sequence of calls in random order to which a call can belong: a replay, a resync or the deletes
// of a list; "" if the call's position is fixed. For a blind handler any add may belong to a replay.
func unordered(c call, blind bool) string {
	switch {
	case c.initial, blind && c.typ == "add":
		return "initial"
	case c.repeats():
		return "repeat"
	case c.typ == "gone":
		return "gone"
	}
	return ""
}

// pauseAtOnce removes a difference in time: after a panic, client-go's handler pauses for a second before its next
// call, and our handler right after the panic.
func pauseAtOnce(c *comparison) {
	late := time.Duration(c.panicked) * crashPause
	for n := range min(len(c.our), len(c.their)) {
		if d := c.their[n].at - c.our[n].at; d > 0 && d <= late {
			c.their[n].at = c.our[n].at
		}
	}
	if c.replayCut { // the handler may have ended while it paused at only one of the informers
		n := min(len(c.our), len(c.their))
		c.our, c.their = c.our[:n], c.their[:n]
	}
}

// ruleNames returns the names of all compatibility rules: those for handlers' calls, and errors-told.
func ruleNames() (out []string) {
	for _, r := range rules {
		out = append(out, r.name)
	}
	return append(out, "errors-told")
}
