package cluster

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/input"
)

func TestResolve(t *testing.T) {
	ctx := context.Background()
	scale := clitest.Resource("", "v1", "scales", "Scale")
	offered := Offers{
		All:         []input.Resource{clitest.Events, clitest.Pods, clitest.NewEvents, scale},
		Unwatchable: map[schema.GroupVersionResource]bool{scale.GroupVersionResource: true},
	}
	unreachable := errors.New("connection refused")
	nameless := clitest.Pods
	nameless.ResourceInfo = entry.ResourceInfo{}
	in := func(r input.Resource, categories ...string) input.Resource {
		r.Categories = categories
		return r
	}
	older := clitest.Resource("apps", "v1beta1", "deployments", "Deployment", "deploy")
	grouped := Offers{
		All: []input.Resource{in(clitest.Events, "noise"), in(clitest.Pods, "all"), in(clitest.Deployments, "all", "apps"),
			in(older, "all"),
			in(scale, "all")}, Unwatchable: offered.Unwatchable,
	}
	for _, tc := range []struct {
		name, arg string
		stored    []input.Resource
		offers    Offers
		err       error
		want      input.Resource
		more      []input.Resource // more has further resources that the category in arg means
		wantErr   string
		wantHint  string
		asks      int
	}{
		{name: "stored, and the server is away", arg: "po", stored: []input.Resource{clitest.Pods}, err: unreachable,
			want: clitest.Pods, asks: 1},
		{name: "stored, and the server means another one", arg: "events", stored: []input.Resource{clitest.NewEvents},
			offers: offered, want: clitest.Events, asks: 1},
		{name: "stored, and the server has it no more", arg: "wd", stored: []input.Resource{clitest.Widgets},
			offers: offered, want: clitest.Widgets, asks: 1},
		{name: "not stored", arg: "po", stored: []input.Resource{clitest.Deployments}, offers: offered, want: clitest.Pods,
			asks: 1},
		{name: "the server's order decides", arg: "events", offers: offered, want: clitest.Events, asks: 1},
		{name: "two in the store", arg: "ev", stored: []input.Resource{clitest.NewEvents, clitest.Events},
			offers: offered, want: clitest.Events,
			asks: 1},
		{name: "stored by a program that gave no names", arg: "pods", stored: []input.Resource{nameless}, offers: offered,
			want: clitest.Pods, asks: 1},
		{name: "no such resource", arg: "foos", offers: offered, wantErr: `no resource "foos"`,
			wantHint: "kubectl api-resources", asks: 1},
		{name: "unreachable", arg: "po", err: unreachable, wantErr: "connection refused", wantHint: "--kubeconfig", asks: 1},
		{name: "two in the store, and the server is away", arg: "ev",
			stored: []input.Resource{clitest.NewEvents, clitest.Events}, err: unreachable, want: clitest.Events, asks: 1},
		{name: "another one is stored, and the server is away", arg: "events", stored: []input.Resource{clitest.NewEvents},
			err: unreachable, wantErr: "connection refused", asks: 1},
		{name: "cannot be watched", arg: "scale", offers: offered, wantErr: "cannot be mirrored", asks: 1},
		{name: "some groups failed", arg: "foos", offers: Offers{Failed: errors.New("metrics are down")},
			wantErr: "metrics are down", asks: 1},
		{name: "a category: each once, in the preferred version, that can be watched", arg: "all", offers: grouped,
			want: clitest.Pods, more: []input.Resource{clitest.Deployments}, asks: 1},
		{name: "a category, which the server is asked for", arg: "all", stored: []input.Resource{in(clitest.Pods, "all")},
			offers: grouped,
			want:   clitest.Pods, more: []input.Resource{clitest.Deployments}, asks: 1},
		{name: "a category offline", arg: "all", stored: []input.Resource{clitest.Events, in(clitest.Pods, "all"),
			in(clitest.Deployments, "all")},
			err:  unreachable,
			want: clitest.Pods, more: []input.Resource{clitest.Deployments}, asks: 1},
		{name: "a category that is not stored", arg: "all", stored: []input.Resource{clitest.Events}, err: unreachable,
			wantErr: "connection refused", asks: 1},
		{name: "secrets offline, which are not stored", arg: "secret", stored: []input.Resource{clitest.Pods},
			err:  unreachable,
			want: input.Secrets, asks: 1},
		{name: "a resource before a category", arg: "pods",
			offers: Offers{All: []input.Resource{in(clitest.Events, "pods"), clitest.Pods}},
			want:   clitest.Pods, asks: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked := 0
			var infos []entry.Info
			for _, s := range tc.stored {
				infos = append(infos, entry.Info{Resource: s.ResourceInfo,
					Identity: entry.Identity{GroupVersionResource: s.GroupVersionResource}})
			}
			r := NewResolver("s.larder", infos, nil, func(ctx context.Context) (Offers, error) {
				asked++
				if _, brief := ctx.Deadline(); brief != (len(tc.stored) > 0) {
					// The request must have the deadline Patience only if resources are stored.
					t.Errorf("the server has a deadline: %v", brief)
				}
				return tc.offers, tc.err
			})
			got, err := r.resolve(ctx, tc.arg)
			_, _ = r.resolve(ctx, tc.arg) // a second resolution must not request discovery again
			if tc.wantErr == "" {
				if want := append([]input.Resource{tc.want}, tc.more...); err != nil ||
					input.Names(got, input.Resource.Full) != input.Names(want, input.Resource.Full) {
					t.Errorf("got %s, %v, want %s", input.Names(got, input.Resource.Full), err, input.Names(want, input.Resource.Full))
				}
			} else {
				clitest.WantError(t, err, tc.wantErr, tc.wantHint)
			}
			if asked != tc.asks {
				t.Errorf("the server was asked %d times, want %d", asked, tc.asks)
			}
		})
	}
}

// TestLacks checks that a resource counts as missing from the server if the server has no version of it. It does not
// count as missing while the server cannot describe a version of its API group.
func TestLacks(t *testing.T) {
	failed := map[schema.GroupVersion]error{{Group: "away.example", Version: "v1"}: errors.New("it is away")}
	o := Offers{All: []input.Resource{clitest.Pods}, Failed: &discovery.ErrGroupDiscoveryFailed{Groups: failed}}
	for name, want := range map[string]bool{"pods": false, "readings.away.example": false, "ghosts.gone.example": true,
		"ghosts": true} {
		if got := o.Lacks(schema.ParseGroupResource(name)); got != want {
			t.Errorf("%s: Lacks is %t, want %t", name, got, want)
		}
	}
}
