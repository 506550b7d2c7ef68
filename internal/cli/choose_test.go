package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/source"
)

// stored is a complete collection of r.
func stored(r resource, change func(*source.Collection)) source.Collection {
	c := source.Collection{
		Group: r.Group, Version: r.Version, Resource: r.Resource, Representation: string(entry.Unstructured),
		Persistent: true, Complete: true, ResourceVersion: "7", Objects: 3,
	}
	c.SetResource(r.ResourceInfo)
	if change != nil {
		change(&c)
	}
	c.ID = c.Identity().ID()
	return c
}

func in(namespace string) func(*source.Collection) {
	return func(c *source.Collection) { c.Namespace = namespace }
}

func labelled(namespace, selector string) func(*source.Collection) {
	return func(c *source.Collection) { c.Namespace, c.LabelSelector = namespace, selector }
}

func TestChoose(t *testing.T) {
	whole := stored(pods, nil)
	a, b := stored(pods, in("a")), stored(pods, in("b"))
	web, webA := stored(pods, labelled("", "app=web")), stored(pods, labelled("a", "app=web"))
	node := stored(pods, func(c *source.Collection) { c.FieldSelector = "spec.nodeName=n" })
	unfinished := stored(pods, func(c *source.Collection) { c.Namespace, c.Complete = "a", false })
	old := stored(pods, func(c *source.Collection) { c.Representation, c.LastContact = "typed", time.Unix(1, 0) })
	recent := stored(pods, func(c *source.Collection) { c.LastContact = time.Unix(2, 0) })
	meta := stored(pods, func(c *source.Collection) { c.Representation, c.LastContact = "metadata", time.Unix(3, 0) })

	for _, tc := range []struct {
		name   string
		stored []source.Collection
		r      request
		want   []source.Collection
		note   string
		err    string
		hint   string
	}{
		{name: "whole", stored: []source.Collection{stored(deployments, nil), whole}, r: request{namespace: "a"},
			want: []source.Collection{whole}},
		{name: "the whole is as good as the part", stored: []source.Collection{a, whole}, r: request{namespace: "b"},
			want: []source.Collection{whole}},
		{name: "all of them", stored: []source.Collection{a, whole}, r: request{all: true}, want: []source.Collection{whole}},
		{name: "its namespace", stored: []source.Collection{b, a}, r: request{namespace: "a"}, want: []source.Collection{a}},
		{name: "another namespace is not empty", stored: []source.Collection{a, b}, r: request{namespace: "default"},
			err: `no pods of namespace "default", only:`, hint: "-n"},
		{name: "disjoint parts together", stored: []source.Collection{b, a}, r: request{all: true},
			want: []source.Collection{a, b}, note: "only these are stored: namespace a"},
		{name: "its selector", stored: []source.Collection{web}, r: request{namespace: "a", selector: "app=web"},
			want: []source.Collection{web}},
		{name: "part by selector", stored: []source.Collection{web}, r: request{namespace: "a"},
			want: []source.Collection{web}, note: "-l app=web"},
		{name: "part by field selector", stored: []source.Collection{node}, r: request{all: true},
			want: []source.Collection{node}, note: "--field-selector spec.nodeName=n"},
		{name: "its field selector", stored: []source.Collection{node, web}, r: request{all: true, fields: "spec.nodeName=n"},
			want: []source.Collection{node}},
		{name: "another field selector", stored: []source.Collection{node}, r: request{all: true, fields: "spec.nodeName=m"},
			want: []source.Collection{node}, note: "--field-selector spec.nodeName=n"},
		{name: "overlapping parts", stored: []source.Collection{web, node}, r: request{all: true}, err: "2 times",
			hint: "--collection"},
		{name: "overlapping parts in one namespace", stored: []source.Collection{webA, node}, r: request{namespace: "a"},
			err: "2 times", hint: "--collection"},
		{name: "chosen", stored: []source.Collection{web, node}, r: request{all: true, collection: node.ID[:6]},
			want: []source.Collection{node}, note: "--field-selector"},
		{name: "chosen badly", stored: []source.Collection{web}, r: request{all: true, collection: "zz"},
			err: "no collection zz", hint: "larder status"},
		{name: "complete before unfinished", stored: []source.Collection{unfinished, whole}, r: request{namespace: "a"},
			want: []source.Collection{whole}},
		{name: "unfinished", stored: []source.Collection{unfinished}, r: request{namespace: "a"},
			want: []source.Collection{unfinished}, note: "has not been finished"},
		{name: "the one heard of last, with whole objects", stored: []source.Collection{old, meta, recent},
			r: request{all: true}, want: []source.Collection{recent},
			note: "these pods are stored unstructured and typed and metadata; printed is what is stored unstructured, " +
				"collection " + recent.ID},
		{name: "metadata", stored: []source.Collection{meta}, r: request{all: true}, want: []source.Collection{meta},
			note: "only metadata"},
		{name: "empty store", r: request{}, err: "it is empty", hint: "larder sync pods"},
		{name: "not stored", stored: []source.Collection{stored(deployments, nil)}, r: request{},
			err:  "it has deployments.apps",
			hint: "add it to the resources of your larder sync: larder sync deployments.apps pods --store s.larder"},
		{name: "not stored, beside what has a scope", stored: []source.Collection{stored(deployments, in("a"))}, r: request{},
			err:  "it has deployments.apps",
			hint: "add it to the resources of your larder sync"},
		{name: "category", stored: []source.Collection{stored(events, nil)}, r: request{resource: "all"},
			err: `no resource of the category "all": it has events`, hint: "larder sync all --store"},
		{name: "ambiguous resource", stored: []source.Collection{stored(events, nil), stored(newEvents, nil)},
			r:   request{resource: "ev"},
			err: "events.v1., events.v1.events.k8s.io", hint: "larder get events.v1."},
		{name: "secrets", r: request{resource: "secret"}, err: `no resource "secret"`, hint: "--persist-secrets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.r.resource == "" {
				tc.r.resource = "pods"
			}
			got, err := choose("s.larder", tc.stored, tc.r)
			if tc.err != "" {
				wantError(t, err, tc.err, tc.hint)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if ids(got.collections) != ids(tc.want) {
				t.Errorf("got\n%s, want\n%s", list(got.collections), list(tc.want))
			}
			notes := strings.Join(got.notes, "\n")
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
