package informer_test

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// rule is one row of the table of deliberate differences in docs/compatibility.md.
type rule struct {
	name string
	// applies: something in this phase makes the difference possible.
	applies func(c *comparison) bool
	// apply changes client-go's log, or both, so that the difference is gone.
	apply func(c *comparison)
}

// rules are all that what handlers are told may differ by.
var rules = []rule{
	// First, since a call of a resync that one of them has not had yet parts and shifts what the others are to be compared
	// by.
	{"resync-clock", func(c *comparison) bool { return c.drifted || c.lost || c.racing }, func(c *comparison) {
		c.our, c.their = slices.DeleteFunc(c.our, call.repeats), slices.DeleteFunc(c.their, call.repeats)
		if c.held {
			c.our, c.their = untimed(c.our), untimed(c.their) // those of the resyncs have held up others
		}
	}},
	{"crash-pause", func(c *comparison) bool { return c.panicked > 0 }, pauseAtOnce},
	{"key-order", always, func(c *comparison) { c.our, c.their = c.inKeyOrder(c.our), c.inKeyOrder(c.their) }},
	{"no-equal-updates", clientGoListed, func(c *comparison) { c.their = slices.DeleteFunc(c.their, call.repeats) }},
	{"merged-updates", func(c *comparison) bool { return c.flooded }, func(c *comparison) {
		c.byKey, c.ourL.merge = true, true
		if c.cold { // what was before the run
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

// untimed sets the moments of all calls to zero.
func untimed(calls []call) []call {
	for n := range calls {
		calls[n].at = 0
	}
	return calls
}

func clientGoListed(c *comparison) bool { return len(c.lists[1]) > 0 }

// comparison is what a handler was told at both informers in one phase of a script.
type comparison struct {
	*phase
	our, their         []call
	ourWalk, theirWalk walk
	panicked           int
	held               bool // some calls held up others
	drifted            bool
	blind              bool // the handler is not told isInInitialList
	replayCut          bool // the handler was ended, in the middle of a replay or a resync perhaps

	// What rules change about how they are compared.
	byKey        bool            // as steps on the paths, key by key, without times
	without      map[string]bool // keys that are left out
	ourL, theirL licence
}

// lines are what is compared.
func (c *comparison) lines() (ours, theirs []string) {
	c.our, c.their = without(c.our, c.without), without(c.their, c.without)
	if !c.byKey {
		return rendered(c.our), rendered(c.their)
	}
	// The stranger was sent on the watches that were open: one informer may have missed it.
	c.our, c.their = without(c.our, map[string]bool{stranger: true}), without(c.their, map[string]bool{stranger: true})
	paths := maps.Clone(c.paths)
	for key := range c.without {
		delete(paths, key)
	}
	return c.ourWalk.stepsByKey(paths, c.our, c.ourL), c.theirWalk.stepsByKey(paths, c.their, c.theirL)
}

// with compares after some rules have been applied.
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

// explain returns the rules that it takes to make the logs equal; none is left out that is needed, none kept that is
// not. ok is false if all that apply do not suffice.
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

// stray returns what our handler was told that does not lead along what was, whatever rule may apply. What it has not
// been told yet does not matter: for handlers that were ended on their way.
func (c comparison) stray() (out []string) {
	var some []rule
	for _, r := range rules {
		if r.applies(&c) {
			some = append(some, r)
		}
	}
	c.byKey, c.ourL.first = true, true // it may have been registered late
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

// inKeyOrder sorts what client-go takes from a map in random order: runs, at one moment, of the calls of a replay or a
// watch-list, of a resync, and of the deletes of a list.
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
		for n := from + 1; n < to; n++ { // a slow handler is slow on another one
			out[n].at, out[from].at = 0, 0
		}
		from = to
	}
	return out
}

// unordered names the run that a call can belong to; empty if its place is fixed. Of a blind handler any add may be one
// of a replay.
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

// pauseAtOnce takes out that client-go rests a second when the next call comes, ours when the handler has panicked.
func pauseAtOnce(c *comparison) {
	late := time.Duration(c.panicked) * crashPause
	for n := range min(len(c.our), len(c.their)) {
		if d := c.their[n].at - c.our[n].at; d > 0 && d <= late {
			c.their[n].at = c.our[n].at
		}
	}
	if c.replayCut { // one of them was in its pause when the handler was ended
		n := min(len(c.our), len(c.their))
		c.our, c.their = c.our[:n], c.their[:n]
	}
}

// ruleNames are the names of all rules: those of the logs of handlers, and those that explain other things.
func ruleNames() (out []string) {
	for _, r := range rules {
		out = append(out, r.name)
	}
	return append(out, "errors-told")
}
