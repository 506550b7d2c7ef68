package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
)

func res(group, version, plural, kind string, short ...string) resource {
	return resource{
		schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
		entry.ResourceInfo{Kind: kind, Singular: strings.ToLower(kind), ShortNames: short, Namespaced: true},
	}
}

var (
	pods        = res("", "v1", "pods", "Pod", "po")
	deployments = res("apps", "v1", "deployments", "Deployment", "deploy")
	events      = res("", "v1", "events", "Event", "ev")
	newEvents   = res("events.k8s.io", "v1", "events", "Event", "ev")
	widgets     = res("example.com", "v1beta1", "widgets", "Widget", "wd", "po")
)

func TestMatchResource(t *testing.T) {
	nameless := resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "gadgets"}}
	known := []resource{pods, events, deployments, newEvents, widgets, nameless}
	for arg, want := range map[string][]resource{
		"pods": {pods}, "pod": {pods}, "Pod": {pods}, "PODS": {pods},
		"pods.v1": {pods}, "pods.v1.": {pods}, "pods.v2": nil, "pods.apps": nil,
		"deploy": {deployments}, "deploy.apps": {deployments}, "deployments.v1.apps": {deployments},
		"deployments.v2.apps": nil,
		"events":              {events, newEvents}, "ev": {events, newEvents}, "events.v1.": {events},
		"events.events.k8s.io": {newEvents},
		"widgets.example.com":  {widgets}, "widgets.v1beta1.example.com": {widgets}, "wd": {widgets},
		"po": {pods, widgets}, "po.example.com": {widgets},
		"gadgets": {nameless}, "gadgets.example.com": {nameless}, "gadget": nil,
		"": nil, ".example.com": nil, "nothing": nil, "example.com": nil,
	} {
		got := matchResource(arg, known)
		if names(got, resource.full) != names(want, resource.full) {
			t.Errorf("%q: got %s, want %s", arg, names(got, resource.full), names(want, resource.full))
		}
	}
}

// A short name does not hide a resource that is really called so.
func TestFullNamesBeforeShortNames(t *testing.T) {
	po := res("example.com", "v1", "po", "Po")
	got := matchResource("po", []resource{pods, po})
	if names(got, resource.full) != po.full() {
		t.Errorf("got %s", names(got, resource.full))
	}
}

func TestResolve(t *testing.T) {
	ctx := context.Background()
	scale := res("", "v1", "scales", "Scale")
	offered := offers{
		all:         []resource{events, pods, newEvents, scale},
		unwatchable: map[schema.GroupVersionResource]bool{scale.GroupVersionResource: true},
	}
	unreachable := errors.New("connection refused")
	nameless := pods
	nameless.ResourceInfo = entry.ResourceInfo{}
	in := func(r resource, categories ...string) resource {
		r.Categories = categories
		return r
	}
	older := res("apps", "v1beta1", "deployments", "Deployment", "deploy")
	grouped := offers{
		all: []resource{in(events, "noise"), in(pods, "all"), in(deployments, "all", "apps"), in(older, "all"),
			in(scale, "all")}, unwatchable: offered.unwatchable,
	}
	for _, tc := range []struct {
		name, arg string
		stored    []resource
		offers    offers
		err       error
		want      resource
		more      []resource // of a category
		wantErr   string
		wantHint  string
		asks      int
	}{
		{name: "stored: the server is not asked", arg: "po", stored: []resource{pods}, err: unreachable, want: pods},
		{name: "not stored", arg: "po", stored: []resource{deployments}, offers: offered, want: pods, asks: 1},
		{name: "the server's order decides", arg: "events", offers: offered, want: events, asks: 1},
		{name: "ambiguous in the store", arg: "ev", stored: []resource{newEvents, events}, offers: offered, want: events,
			asks: 1},
		{name: "stored by a program that gave no names", arg: "pods", stored: []resource{nameless}, offers: offered,
			want: pods, asks: 1},
		{name: "no such resource", arg: "foos", offers: offered, wantErr: `no resource "foos"`,
			wantHint: "kubectl api-resources", asks: 1},
		{name: "unreachable", arg: "po", err: unreachable, wantErr: "connection refused", wantHint: "--kubeconfig", asks: 1},
		{name: "unreachable and ambiguous", arg: "ev", stored: []resource{newEvents, events}, err: unreachable,
			wantErr: "events.v1.events.k8s.io, events.v1.,", wantHint: "larder sync events.v1.events.k8s.io", asks: 1},
		{name: "cannot be watched", arg: "scale", offers: offered, wantErr: "cannot be mirrored", asks: 1},
		{name: "some groups failed", arg: "foos", offers: offers{failed: errors.New("metrics are down")},
			wantErr: "metrics are down", asks: 1},
		{name: "a category: each once, in the preferred version, that can be watched", arg: "all", offers: grouped,
			want: pods, more: []resource{deployments}, asks: 1},
		{name: "a category, which the server is asked for", arg: "all", stored: []resource{in(pods, "all")}, offers: grouped,
			want: pods, more: []resource{deployments}, asks: 1},
		{name: "a category offline", arg: "all", stored: []resource{events, in(pods, "all"), in(deployments, "all")},
			err:  unreachable,
			want: pods, more: []resource{deployments}, asks: 1},
		{name: "a category that is not stored", arg: "all", stored: []resource{events}, err: unreachable,
			wantErr: "connection refused", asks: 1},
		{name: "secrets offline, which are not stored", arg: "secret", stored: []resource{pods}, err: unreachable,
			want: secrets, asks: 1},
		{name: "a resource before a category", arg: "pods", offers: offers{all: []resource{in(events, "pods"), pods}},
			want: pods, asks: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked := 0
			r := &resolver{storePath: "s.larder", stored: tc.stored, discover: func(ctx context.Context) (offers, error) {
				asked++
				if _, brief := ctx.Deadline(); brief != (len(tc.stored) > 0) { // then there is something to go on with
					t.Errorf("the server has a deadline: %v", brief)
				}
				return tc.offers, tc.err
			}}
			got, err := r.resolve(ctx, tc.arg)
			_, _ = r.resolve(ctx, tc.arg) // the server is not asked again, whatever it said
			if tc.wantErr == "" {
				if want := append([]resource{tc.want}, tc.more...); err != nil ||
					names(got, resource.full) != names(want, resource.full) {
					t.Errorf("got %s, %v, want %s", names(got, resource.full), err, names(want, resource.full))
				}
			} else {
				wantError(t, err, tc.wantErr, tc.wantHint)
			}
			if asked != tc.asks {
				t.Errorf("the server was asked %d times, want %d", asked, tc.asks)
			}
		})
	}
}

// wantError fails unless err and its hint contain the texts.
func wantError(t *testing.T, err error, text, hint string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want one with %q", err, text)
	}
	if !strings.Contains(command.HintOf(err), hint) {
		t.Errorf("got hint %q, want one with %q", command.HintOf(err), hint)
	}
}
