// Package deliverytest checks that the calls a handler received are a legal merging of the events.
package deliverytest

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// Call is one call in the form that LegalMerging compares. No two updates of an object have the same New.
type Call struct {
	Type            cache.DeltaType
	Old, New        any
	Initial, Resync bool
}

// LegalMerging returns an error unless delivered equals happened with some runs of updates merged into one. Both are of
// one key.
func LegalMerging(happened, delivered []Call) error {
	for i, d := range delivered {
		if len(happened) == 0 {
			return fmt.Errorf("notification %d (%v) never happened", i, d)
		}
		run := 1
		if d.Type == cache.Updated {
			for run < len(happened) && happened[run-1].New != d.New && happened[run].Type == cache.Updated {
				run++
			}
		}
		first, last := happened[0], happened[run-1]
		for j := 1; j < run && first.Resync; j++ { // the merged call begins after leading resyncs
			first = happened[j]
		}
		if d.Type != first.Type || d.Initial != first.Initial || d.Old != first.Old || d.New != last.New ||
			d.Resync != first.Resync {
			return fmt.Errorf("notification %d is %v, what happened is %v", i, d, happened[:run])
		}
		happened = happened[run:]
	}
	if len(happened) > 0 {
		return fmt.Errorf("%v were not delivered", happened)
	}
	return nil
}
