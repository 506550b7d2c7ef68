package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

type etcdChange struct {
	rv                   int64
	key, namespace, name string
	color, n             string // label and counter in the changed object
	deleted              bool
}

func newChange(made controlplane.Change) (etcdChange, error) {
	c := etcdChange{rv: made.Revision, deleted: made.Value == nil}
	c.key = strings.TrimPrefix(made.Key, "/registry/configmaps/")
	c.namespace, c.name, _ = strings.Cut(c.key, "/")
	if c.deleted {
		return c, nil
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(made.Value, nil, nil)
	if err != nil {
		return c, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return c, err
	}
	c.color, c.n = m.GetLabels()["color"], m.GetAnnotations()["n"]
	return c, nil
}

// observed is an object in the form in which a watching client received it.
type observed struct {
	key string
	rv  int64
	n   string
}

type stepKind int

const (
	listed    stepKind = iota // the whole state, by a list or by initial events
	connected                 // a watch from rv was opened
	event
	bookmarked // a bookmark at resourceVersion rv
	wrong      // a violation of the watch protocol
)

// watchStep is one message that a watching client received.
type watchStep struct {
	kind    stepKind
	rv      int64
	event   watch.EventType
	objects []observed
	text    string
}

func (s watchStep) String() string {
	switch s.kind {
	case listed:
		return fmt.Sprintf("list at %d: %d objects", s.rv, len(s.objects))
	case connected:
		return fmt.Sprintf("watch from %d", s.rv)
	case event:
		return fmt.Sprintf("%s %s at %d", s.event, s.objects[0].key, s.rv)
	case bookmarked:
		return fmt.Sprintf("bookmark %d", s.rv)
	}
	return s.text
}

type story struct{ steps []watchStep }

func (s *story) add(one watchStep) { s.steps = append(s.steps, one) }

func (s *story) tail(n int) string {
	var lines []string
	for _, one := range s.steps[max(0, len(s.steps)-n):] {
		lines = append(lines, one.String())
	}
	return strings.Join(lines, "\n")
}

type found struct {
	problems               []string
	events, lists, resumed int
}

// checkStory validates the messages to a client against etcd's changes, as etcd's robustness tests validate watches:
//
//   - ordered: resourceVersions of events and bookmarks ascend, also across resumed watches;
//   - unique: no event repeats, and its type fits the client's state: ADDED, MODIFIED or DELETED;
//   - true: an object has the content that it had at its resourceVersion;
//   - resumable and bookmarkable: at each list and each bookmark, the client's state is that of its selection at that
//     resourceVersion, whatever happened to earlier watches;
//   - reliable: this also holds at the end.
//
// Events may be fewer than changes, because several changes may be merged into an event with the last state.
func checkStory(spec watchSpec, s story, changes []etcdChange) (f found) {
	c := &checker{spec: spec, changes: changes, state: map[string]observed{}, truth: map[string]observed{}}
	for _, one := range s.steps {
		switch one.kind {
		case wrong:
			c.problem("%s", one.text)
		case listed:
			f.lists++
			c.list(one)
		case connected:
			if f.lists > 0 && one.rv != 0 {
				f.resumed++
			}
		case event:
			f.events++
			c.event(one)
		case bookmarked:
			c.ascends(one)
			c.same("at the bookmark", one.rv)
		}
	}
	if len(changes) > 0 && f.lists > 0 {
		c.same("at the end", changes[len(changes)-1].rv)
	}
	f.problems = c.problems
	return f
}

type checker struct {
	spec     watchSpec
	changes  []etcdChange
	state    map[string]observed // the client's objects after the messages so far
	rv       int64
	truth    map[string]observed // the expected objects after the first next changes
	next     int
	problems []string
}

func (c *checker) problem(text string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(text, args...))
}

func (c *checker) list(s watchStep) {
	c.rv = s.rv
	clear(c.state)
	for _, o := range s.objects {
		c.state[o.key] = o
	}
	if len(c.state) != len(s.objects) {
		c.problem("%s: an object twice", s)
	}
	c.same("in the list", s.rv)
}

func (c *checker) ascends(s watchStep) {
	if s.rv < c.rv || s.rv == c.rv && s.kind == event {
		c.problem("%s comes after %d", s, c.rv)
	}
	c.rv = s.rv
}

func (c *checker) event(s watchStep) {
	c.ascends(s)
	o := s.objects[0]
	_, known := c.state[o.key]
	if known != (s.event != watch.Added) {
		c.problem("%s, and the client knows of it: %t", s, known)
	}
	if s.event == watch.Deleted {
		delete(c.state, o.key)
	} else {
		c.state[o.key] = o
	}
	i, ok := slices.BinarySearchFunc(c.changes, s.rv, func(made etcdChange, rv int64) int { return int(made.rv - rv) })
	switch {
	case !ok || c.changes[i].key != o.key:
		c.problem("%s is no change that etcd had", s)
	case s.event != watch.Deleted && (c.changes[i].deleted || c.changes[i].n != o.n):
		c.problem("%s: %q is not what the object was: %+v", s, o.n, c.changes[i])
	case s.event == watch.Deleted && !c.changes[i].deleted &&
		c.spec.selects(c.changes[i].namespace, c.changes[i].name, c.changes[i].color):
		c.problem("%s, and it was selected: %+v", s, c.changes[i])
	}
}

func (c *checker) same(when string, rv int64) {
	if c.next > 0 && c.changes[c.next-1].rv > rv { // a killed mirror may continue from an older state
		c.next = 0
		clear(c.truth)
	}
	for ; c.next < len(c.changes) && c.changes[c.next].rv <= rv; c.next++ {
		made := c.changes[c.next]
		if !made.deleted && c.spec.selects(made.namespace, made.name, made.color) {
			c.truth[made.key] = observed{key: made.key, rv: made.rv, n: made.n}
		} else {
			delete(c.truth, made.key)
		}
	}
	for key, want := range c.truth {
		if has := c.state[key]; has != want {
			c.problem("%s %d the client has %+v, want %+v", when, rv, has, want)
			return
		}
	}
	if len(c.state) != len(c.truth) {
		c.problem("%s %d the client has %d objects, want %d", when, rv, len(c.state), len(c.truth))
	}
}

// TestCheckStory checks that checkStory finds the fault in each of several invalid stories.
func TestCheckStory(t *testing.T) {
	changes := []etcdChange{
		{rv: 2, key: "a/x", namespace: "a", name: "x", color: "red", n: "1"},
		{rv: 3, key: "a/y", namespace: "a", name: "y", color: "red", n: "2"},
		{rv: 5, key: "a/x", namespace: "a", name: "x", color: "blue", n: "3"},
		{rv: 6, key: "a/y", namespace: "a", name: "y", deleted: true},
		{rv: 8, key: "a/z", namespace: "a", name: "z", color: "red", n: "4"},
	}
	x, y, later, z := observed{"a/x", 2, "1"}, observed{"a/y", 3, "2"}, observed{"a/x", 5, "3"}, observed{"a/z", 8, "4"}
	send := func(rv int64, kind watch.EventType, o observed) watchStep {
		return watchStep{kind: event, rv: rv, event: kind, objects: []observed{o}}
	}
	list := watchStep{kind: listed, rv: 3, objects: []observed{x, y}}
	good := []watchStep{
		list, {kind: connected, rv: 3}, send(5, watch.Modified, later), {kind: bookmarked, rv: 5}, {kind: connected, rv: 5},
		send(6, watch.Deleted, observed{"a/y", 6, "2"}), {kind: bookmarked, rv: 7}, send(8, watch.Added, z),
	}
	if f := checkStory(watchSpec{}, story{good}, changes); len(f.problems) > 0 || f.events != 3 || f.resumed != 2 {
		t.Fatalf("a true story: %+v", f)
	}
	without := func(i int) []watchStep { return slices.Delete(slices.Clone(good), i, i+1) }
	with := func(i int, s ...watchStep) []watchStep { return slices.Insert(slices.Clone(good), i, s...) }
	instead := func(i int, s watchStep) []watchStep {
		steps := slices.Clone(good)
		steps[i] = s
		return steps
	}
	for name, steps := range map[string][]watchStep{
		"an event is missing before a bookmark": without(2),
		"the last event is missing":             without(7),
		"an event twice":                        with(3, good[2]),
		"a bookmark too early":                  with(2, watchStep{kind: bookmarked, rv: 6}),
		"an older bookmark":                     with(7, watchStep{kind: bookmarked, rv: 4}),
		"an event out of order":                 {list, good[5], good[2], good[7]},
		"ADDED for MODIFIED":                    instead(2, send(5, watch.Added, later)),
		"MODIFIED for ADDED":                    instead(7, send(8, watch.Modified, z)),
		"DELETED for MODIFIED":                  instead(2, send(5, watch.Deleted, later)),
		"an older state":                        instead(2, send(5, watch.Modified, observed{"a/x", 5, "1"})),
		"another's resourceVersion":             instead(2, send(6, watch.Modified, observed{"a/x", 6, "3"})),
		"an object is missing in the list":      instead(0, watchStep{kind: listed, rv: 3, objects: []observed{x}}),
		"a deleted object in the list":          with(8, watchStep{kind: listed, rv: 8, objects: []observed{later, y, z}}),
		"an object twice in the list":           instead(0, watchStep{kind: listed, rv: 3, objects: []observed{x, y, y}}),
		"a list that says it is newer":          append([]watchStep{{kind: listed, rv: 5, objects: list.objects}}, good[3:]...),
		"an error":                              with(3, watchStep{kind: wrong, text: "404"}),
	} {
		if f := checkStory(watchSpec{}, story{steps}, changes); len(f.problems) == 0 {
			t.Errorf("%s: nothing is found wrong", name)
		}
	}
	selecting := []watchStep{list, send(5, watch.Deleted, observed{"a/x", 5, "1"}), good[5], good[7]}
	if f := checkStory(watchSpec{color: "red"}, story{selecting}, changes); len(f.problems) > 0 {
		t.Errorf("a true story of the red ones: %+v", f)
	}
	if f := checkStory(watchSpec{color: "red"}, story{good}, changes); len(f.problems) == 0 {
		t.Error("an object that is not selected any more: nothing is found wrong")
	}
}
