package input_test

import (
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

func TestChoose(t *testing.T) {
	whole := clitest.Stored(clitest.Pods, nil)
	a, b := clitest.Stored(clitest.Pods, clitest.In("a")), clitest.Stored(clitest.Pods, clitest.In("b"))
	web, webA := clitest.Stored(clitest.Pods, clitest.Labelled("", "app=web")),
		clitest.Stored(clitest.Pods, clitest.Labelled("a", "app=web"))
	node := clitest.Stored(clitest.Pods, func(c *source.Collection) { c.FieldSelector = "spec.nodeName=n" })
	unfinished := clitest.Stored(clitest.Pods, func(c *source.Collection) { c.Namespace, c.Complete = "a", false })
	old := clitest.Stored(clitest.Pods, func(c *source.Collection) {
		c.Representation, c.LastContact = "typed",
			time.Unix(1, 0)
	})
	recent := clitest.Stored(clitest.Pods, func(c *source.Collection) { c.LastContact = time.Unix(2, 0) })
	meta := clitest.Stored(clitest.Pods, func(c *source.Collection) {
		c.Representation, c.LastContact = "metadata",
			time.Unix(3, 0)
	})
	defective := clitest.Stored(clitest.Pods, func(c *source.Collection) {
		c.Notes = []entry.Note{{Kind: entry.NoteTransform, Text: "from the test"}}
	})

	for _, tc := range []struct {
		name   string
		stored []source.Collection
		r      input.Request
		want   []source.Collection
		note   string
		err    string
		hint   string
	}{
		{name: "whole", stored: []source.Collection{clitest.Stored(clitest.Deployments, nil), whole},
			r:    input.Request{Namespace: "a"},
			want: []source.Collection{whole}},
		{name: "the whole is as good as the part", stored: []source.Collection{a, whole}, r: input.Request{Namespace: "b"},
			want: []source.Collection{whole}},
		{name: "all of them", stored: []source.Collection{a, whole}, r: input.Request{All: true},
			want: []source.Collection{whole}},
		{name: "its namespace", stored: []source.Collection{b, a}, r: input.Request{Namespace: "a"},
			want: []source.Collection{a}},
		{name: "another namespace is not empty", stored: []source.Collection{a, b}, r: input.Request{Namespace: "default"},
			err: `no pods of namespace "default", only:`, hint: "-n"},
		{name: "disjoint parts together", stored: []source.Collection{b, a}, r: input.Request{All: true},
			want: []source.Collection{a, b}, note: "only these are stored: namespace a"},
		{name: "its selector", stored: []source.Collection{web}, r: input.Request{Namespace: "a", Selector: "app=web"},
			want: []source.Collection{web}},
		{name: "part by selector", stored: []source.Collection{web}, r: input.Request{Namespace: "a"},
			want: []source.Collection{web}, note: "-l app=web"},
		{name: "part by field selector", stored: []source.Collection{node}, r: input.Request{All: true},
			want: []source.Collection{node}, note: "--field-selector spec.nodeName=n"},
		{name: "its field selector", stored: []source.Collection{node, web},
			r:    input.Request{All: true, Fields: "spec.nodeName=n"},
			want: []source.Collection{node}},
		{name: "another field selector", stored: []source.Collection{node},
			r:    input.Request{All: true, Fields: "spec.nodeName=m"},
			want: []source.Collection{node}, note: "--field-selector spec.nodeName=n"},
		{name: "overlapping parts", stored: []source.Collection{web, node}, r: input.Request{All: true}, err: "2 times",
			hint: "--collection"},
		{name: "overlapping parts in one namespace", stored: []source.Collection{webA, node},
			r:   input.Request{Namespace: "a"},
			err: "2 times", hint: "--collection"},
		{name: "chosen", stored: []source.Collection{web, node}, r: input.Request{All: true, Collection: node.ID[:6]},
			want: []source.Collection{node}, note: "--field-selector"},
		{name: "chosen badly", stored: []source.Collection{web}, r: input.Request{All: true, Collection: "zz"},
			err: "no collection zz", hint: "larder status"},
		{name: "complete before unfinished", stored: []source.Collection{unfinished, whole}, r: input.Request{Namespace: "a"},
			want: []source.Collection{whole}},
		{name: "unfinished", stored: []source.Collection{unfinished}, r: input.Request{Namespace: "a"},
			want: []source.Collection{unfinished}, note: "has not been finished"},
		{name: "the one heard of last, with whole objects", stored: []source.Collection{old, meta, recent},
			r: input.Request{All: true}, want: []source.Collection{recent},
			note: "these pods are stored unstructured and typed and metadata; printed is what is stored unstructured, " +
				"collection " + recent.ID},
		{name: "known defects", stored: []source.Collection{defective}, r: input.Request{All: true},
			want: []source.Collection{defective}, note: "from the test"},
		{name: "metadata", stored: []source.Collection{meta}, r: input.Request{All: true}, want: []source.Collection{meta},
			note: "only metadata"},
		{name: "empty store", r: input.Request{}, err: "it is empty", hint: "larder sync pods"},
		{name: "not stored", stored: []source.Collection{clitest.Stored(clitest.Deployments, nil)}, r: input.Request{},
			err:  "it has deployments.apps",
			hint: "add it to the resources of your larder sync: larder sync deployments.apps pods --store s.larder"},
		{name: "not stored, beside what has a scope",
			stored: []source.Collection{clitest.Stored(clitest.Deployments, clitest.In("a"))}, r: input.Request{},
			err:  "it has deployments.apps",
			hint: "add it to the resources of your larder sync"},
		{name: "category", stored: []source.Collection{clitest.Stored(clitest.Events, nil)},
			r:   input.Request{Resource: "all"},
			err: `no resource of the category "all": it has events`, hint: "larder sync all --store"},
		{name: "the namesake in the core group", stored: []source.Collection{clitest.Stored(clitest.Events, nil),
			clitest.Stored(clitest.NewEvents, nil)},
			r: input.Request{Resource: "ev"}, want: []source.Collection{clitest.Stored(clitest.Events, nil)}},
		{name: "a namesake of what is meant", stored: []source.Collection{clitest.Stored(clitest.NewEvents,
			func(c *source.Collection) { c.Elsewhere = []string{"ev", "events", "event"} })},
			r:    input.Request{Resource: "ev"},
			err:  "another resource, which s.larder does not have: it has events.events.k8s.io",
			hint: "write the name with its group: events.events.k8s.io"},
		{name: "secrets", r: input.Request{Resource: "secret"}, err: `no resource "secret"`, hint: "--persist-secrets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.r.Resource == "" {
				tc.r.Resource = "pods"
			}
			got, err := input.Choose("s.larder", tc.stored, tc.r)
			if tc.err != "" {
				clitest.WantError(t, err, tc.err, tc.hint)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if ids(got.Collections) != ids(tc.want) {
				t.Errorf("got\n%s, want\n%s", input.List(got.Collections), input.List(tc.want))
			}
			notes := strings.Join(got.Notes, "\n")
			if !strings.Contains(notes, tc.note) || (tc.note == "") != (notes == "") {
				t.Errorf("notes %q, want %q", notes, tc.note)
			}
		})
	}
}

func ids(all []source.Collection) string {
	var s []string
	for _, c := range all {
		s = append(s, c.ID)
	}
	return strings.Join(s, " ")
}
