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
	firstListWithin = time.Minute
	firstListEvery  = 100 * time.Millisecond
)

// afterFirstList returns the status of a store. If a sync is listing a requested resource for the first time, it waits
// up to firstListWithin until that list is complete or fails.
func afterFirstList(ctx context.Context, s command.IO, src source.Source, targets []target) (source.Status, error) {
	status, err := src.Status(ctx)
	if _, running := src.(*source.Client); !running || err != nil {
		return status, err
	}
	enough := time.After(firstListWithin)
	for printed := false; err == nil; status, err = src.Status(ctx) {
		waiting := firstLists(status.Collections, targets)
		if len(waiting) == 0 {
			return status, nil
		}
		if !printed {
			fmt.Fprintf(s.Err, "note: waiting for the first list of %s\n", input.Names(waiting, input.Resource.String))
			printed = true
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-enough: // a note then says that the list is incomplete
			return status, nil
		case <-time.After(firstListEvery):
		}
	}
	return status, err
}

func firstLists(stored []source.Collection, targets []target) []input.Resource {
	var waiting []source.Collection
	for _, c := range stored {
		if c.Complete || c.Live == nil || input.LiveError(*c.Live) != "" || !asked(c, stored, targets) {
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
