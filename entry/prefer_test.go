package entry_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// TestPrefer checks that each criterion takes precedence over the following ones (issue 37).
func TestPrefer(t *testing.T) {
	pods := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	metadata := pods
	metadata.Representation = entry.Metadata
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	best := []entry.Info{
		{Identity: pods, Complete: true, LastContact: early},
		{Identity: pods, Complete: true, LastContact: late, MustRelist: "Expired"},
		{Identity: pods, Complete: true, LastContact: early, MustRelist: "Expired"},
		{Identity: metadata, Complete: true, LastContact: late},
		{Identity: pods, LastContact: late},
	}
	for i, better := range best {
		for _, worse := range best[i+1:] {
			for _, both := range [][]entry.Info{{better, worse}, {worse, better}} {
				if got := slices.MinFunc(both, entry.Prefer); got.LastContact != better.LastContact ||
					got.MustRelist != better.MustRelist || got.Complete != better.Complete || got.Identity != better.Identity {
					t.Errorf("%+v was preferred to %+v", worse, better)
				}
			}
		}
	}
}
