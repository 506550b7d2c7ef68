package scenario

import (
	"fmt"

	"github.com/larder-dev/larder/bench/internal/subject"
)

// tally is what became of the updates of a handler. One that is far behind is told of several updates of an object by one call of Larder: a rate
// counts calls, so that what was merged is no work that was done.
type tally struct{ told, merged int }

// tallyOf returns the tally so far. An informer that has ended has forgotten what it merged.
func tallyOf(r *subject.Running, w *subject.Witness) tally {
	t := tally{told: int(w.Updates())}
	if r.Larder != nil {
		for _, h := range r.Larder.Status().Handlers {
			t.merged += h.Merged
		}
	}
	return t
}

// since returns what was added to an earlier tally.
func (t tally) since(earlier tally) tally {
	return tally{told: t.told - earlier.told, merged: t.merged - earlier.merged}
}

// check returns an error unless each of the updates that were made was told, alone or merged into another: else they were not what was
// measured.
func (t tally) check(made int) error {
	if t.told+t.merged != made {
		return fmt.Errorf("%d updates were made, but the handler was told of %d, and %d were merged into those", made, t.told, t.merged)
	}
	return nil
}

// rate returns the figures of updates that took so many seconds.
func (t tally) rate(seconds float64) Result {
	return Result{"rate": float64(t.told) / seconds, "told": float64(t.told), "told" + Reference: float64(t.told + t.merged)}
}
