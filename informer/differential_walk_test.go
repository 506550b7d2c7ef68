package informer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// track is the history of one pod. Its states are descriptions of the pod; the first is "", for no pod.
type track struct {
	states []string
	rvs    []int
	steps  []string // steps[n] is the handler call for the change from states[n-1] to states[n]
}

func (w *world) paths(transform func(any) (any, error)) map[string]*track {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]*track{}
	for _, h := range w.history {
		p := out[h.key]
		if p == nil {
			p = &track{states: []string{""}, rvs: []int{0}, steps: []string{""}}
			out[h.key] = p
		}
		gone := h.event.Type == watch.Deleted
		if transform != nil && (!gone || p.states[len(p.states)-1] == "") {
			if _, err := transform(h.event.Object.DeepCopyObject()); err != nil {
				continue
			}
		}
		c := call{key: h.key, old: p.states[len(p.states)-1], new: w.describe(h.event.Object.(*corev1.Pod), transform)}
		switch {
		case gone:
			c.typ, c.old, c.new = "delete", c.new, ""
		case c.old == "":
			c.typ = "add"
		default:
			c.typ = "update"
		}
		p.states, p.rvs, p.steps = append(p.states, c.new), append(p.rvs, h.rv), append(p.steps, c.untimed())
	}
	return out
}

// at returns the index of the pod's state at the given resourceVersion.
func (p *track) at(rv int) int {
	n := 0
	for n+1 < len(p.rvs) && p.rvs[n+1] <= rv {
		n++
	}
	return n
}

// unfinished marks a line about a handler whose calls do not end in the pod's last state.
const unfinished = " and knows"

// licence says which of a pod's states the calls of a handler may skip.
type licence struct {
	lists []int // lists are resourceVersions of the informer's lists, which skip the states between them
	fold  bool  // fold means that events that arrived during a list may be part of the list
	first bool  // first means that the handler's first call for a pod may report any of its states
	merge bool  // merge means that consecutive updates of a pod may be merged into one call
}

// walk holds, by key, the index of the pod's state that a handler knows from its calls.
type walk struct{ at map[string]int }

func newWalk() walk { return walk{map[string]int{}} }

// steps converts a handler's calls about one pod to the steps of the pod's history. It replaces permitted shortcuts by
// the skipped steps, and marks the first call that is not permitted.
func (w walk) steps(key string, p *track, calls []call, l licence) (out []string) {
	cur, known := w.at[key]
	step := func(to int) {
		out = append(out, p.steps[cur+1:to+1]...)
		cur, known = to, true
	}
	for _, c := range calls {
		c.initial = false
		if c.repeats() && c.new == p.states[cur] {
			out = append(out, c.untimed())
			continue
		}
		if cur+1 < len(p.states) && p.steps[cur+1] == c.untimed() {
			step(cur + 1)
			continue
		}
		if to := l.target(p, cur, known, c); to > cur {
			step(to)
			if p.states[cur] != c.to() {
				step(cur + 1)
			}
			continue
		}
		return append(out, fmt.Sprintf("?? %v after %q", c, p.states[cur]))
	}
	end := len(p.states) - 1
	switch {
	case cur == end:
	case p.states[end] == "" && p.states[cur] == "" &&
		(!known && l.first || slices.ContainsFunc(l.lists, func(rv int) bool { return p.at(rv) > cur || l.fold })):
		step(end)
	default:
		out = append(out, fmt.Sprintf("??%s %q, not %q", unfinished, p.states[cur], p.states[end]))
	}
	return out
}

func (c call) to() string { return c.new }

// from returns the pod's state that a handler must know before the call. A delete may carry a newer state than the
// handler knows.
func (c call) from(cur string) string {
	if c.typ == "delete" {
		return cur
	}
	return c.old
}

// target returns the index of the state that a call reaches by skipping steps. It returns cur if the licence does not
// permit that.
func (l licence) target(p *track, cur int, known bool, c call) int {
	if !known && l.first && c.typ == "add" {
		for to := len(p.states) - 1; to > cur; to-- {
			if p.states[to] == c.new {
				return to
			}
		}
	}
	if l.merge && c.typ == "update" && c.old == p.states[cur] {
		for to := cur + 1; to < len(p.states) && strings.HasPrefix(p.steps[to], "update "); to++ {
			if p.states[to] == c.new {
				return to
			}
		}
	}
	for _, rv := range l.lists {
		last := p.at(rv)
		if l.fold {
			last = len(p.states) - 1
		}
		for to := max(p.at(rv), cur+1); to <= last; to++ {
			received := p.states[to] == c.to() && c.typ != "delete" && c.from("") == p.states[cur]
			silent := p.states[to] == p.states[cur] && to+1 < len(p.states) && p.steps[to+1] == withoutMark(c)
			if received || silent {
				return to
			}
		}
	}
	return cur
}

func withoutMark(c call) string {
	c.initial = false
	return c.untimed()
}

// reachEnd makes the handler know the last state of every pod.
func (w walk) reachEnd(paths map[string]*track) {
	for key, p := range paths {
		w.at[key] = len(p.states) - 1
	}
}

// stepsByKey converts a handler's calls to steps of the pods' histories, in key order.
func (w walk) stepsByKey(paths map[string]*track, calls []call, l licence) (out []string) {
	by := map[string][]call{}
	for _, c := range calls {
		by[c.key] = append(by[c.key], c)
	}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		if paths[key] == nil {
			out = append(out, fmt.Sprintf("?? %v, which never was", by[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(paths)) {
		for _, step := range w.steps(key, paths[key], by[key], l) {
			out = append(out, key+": "+step)
		}
	}
	return out
}
