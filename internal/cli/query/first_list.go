package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

const (
	// firstListWithin is how long a reading command waits for the first list of a sync that has just been started.
	firstListWithin = time.Minute
	// firstListEvery is how often it looks.
	firstListEvery = 100 * time.Millisecond
)

// afterFirstList returns the status of a store, of which a resource that is asked for may be in its first list: a sync
// that has just been started is waited for, as long as it is getting on.
func afterFirstList(ctx context.Context, s command.IO, src source.Source, targets []target) (source.Status, error) {
	status, err := src.Status(ctx)
	if _, running := src.(*source.Client); !running || err != nil {
		return status, err
	}
	enough := time.After(firstListWithin)
	for told := false; err == nil; status, err = src.Status(ctx) {
		waiting := firstLists(status.Collections, targets)
		if len(waiting) == 0 {
			return status, nil
		}
		if !told {
			fmt.Fprintf(s.Err, "note: waiting for the first list of %s\n", input.Names(waiting, input.Resource.String))
			told = true
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-enough: // what there is, is said to be incomplete
			return status, nil
		case <-time.After(firstListEvery):
		}
	}
	return status, err
}

// firstLists are the resources that are asked for and are being listed for the first time, with nothing in the way.
func firstLists(stored []source.Collection, targets []target) []input.Resource {
	var waiting []source.Collection
	for _, c := range stored {
		if c.Complete || c.Live == nil || input.Trouble(*c.Live) != "" || !asked(c, stored, targets) {
			continue
		}
		waiting = append(waiting, c)
	}
	return input.StoredResources(waiting)
}

func asked(c source.Collection, stored []source.Collection, targets []target) bool {
	return slices.ContainsFunc(targets, func(t target) bool {
		return slices.ContainsFunc(input.NamedBy(t.resource, stored), func(r input.Resource) bool {
			return r.GroupVersionResource == c.GVR()
		})
	})
}
