// Package deliverytest says which calls a handler may get for what has happened.
package deliverytest

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// Told is a call, as LegalMerging compares them. No two updates of an object have the same New.
type Told struct {
	Type            cache.DeltaType
	Old, New        any
	Initial, Resync bool
}

// LegalMerging reports whether delivered is happened, both of one key, with some runs of updates told as one.
func LegalMerging(happened, delivered []Told) error {
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
		for j := 1; j < run && first.Resync; j++ { // what happened begins after them
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
