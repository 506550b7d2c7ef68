package informer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/store"
)

// ErrStale: what is stored is older than Options.RefuseAfter allows, and is not served until the informer has caught up with the server.
var ErrStale = errors.New("the stored objects are too old to be served")

// retention knows since when the stored objects are not known to be what the server has, and refuses them after a time. It is nil if
// they are served for ever.
//
// What counts is a sign of life from a server that there was nothing to catch up with: everything that it had was delivered, and the pump has come to the mark
// behind that. While the program runs only the monotonic clock is asked, so that whoever sets the other one makes nothing younger or older.
type retention struct {
	limit time.Duration
	clock clock.WithTicker
	// held are the objects that an earlier run has left.
	held heldObjects

	// behind counts what keeps signs of life from counting: marks that the pump has yet to come to, and objects that it lacks.
	behind atomic.Int64
	// confirmed is when the objects were last known to be good in this run; nil: never.
	confirmed atomic.Pointer[time.Time]
}

// leastRefuseAfter is longer than a healthy watch is silent.
const leastRefuseAfter = 3 * time.Minute

func newRetention(limit time.Duration, c clock.WithTicker, info store.Info) *retention {
	if limit == 0 {
		return nil
	}
	return &retention{limit: limit, clock: c, held: heldObjects{stored: info.LastContact, read: c.Now(), any: info.Complete}}
}

// heldObjects is the age of stored objects.
type heldObjects struct {
	stored time.Time // when they were last known to be good
	read   time.Time // when that was read
	any    bool      // whether there are any
}

// confirm notes that the stored objects are what the server has.
func (r *retention) confirm() {
	if r != nil {
		now := r.clock.Now()
		r.confirmed.Store(&now)
	}
}

// heard notes a sign of life; caughtUp is what the reflector says of itself. It reports whether the objects are served again.
func (r *retention) heard(caughtUp bool) (again bool) {
	if r == nil || !caughtUp || r.behind.Load() != 0 {
		return false
	}
	again = !r.serves()
	r.confirm()
	return again
}

// fallBack says that there is something that the pump has yet to come to, and catchUp that it has.
func (r *retention) fallBack() {
	if r != nil {
		r.behind.Add(1)
	}
}

func (r *retention) catchUp() {
	if r != nil && r.behind.Add(-1) == 0 {
		r.confirm()
	}
}

// asOf is when the stored objects were last known to be good in this run; zero: never.
func (r *retention) asOf() time.Time {
	if at := r.confirmed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// refuses returns why the stored objects are not served, or nil.
func (r *retention) refuses() error {
	if r == nil {
		return nil
	}
	confirmed := r.confirmed.Load()
	if confirmed == nil && !r.held.any {
		return nil // nothing is stored yet
	}
	age := r.age()
	if age <= r.limit {
		return nil
	}
	return fmt.Errorf("%w: they are of %v ago, and Options.RefuseAfter is %v; they are served again when the informer has caught up with the API server",
		ErrStale, age.Round(time.Second), r.limit)
}

// age is how long ago the stored objects were last known to be good.
func (r *retention) age() time.Duration {
	if confirmed := r.confirmed.Load(); confirmed != nil {
		return r.clock.Since(*confirmed)
	}
	return ageOf(r.held.stored, r.held.read, r.clock.Since(r.held.read))
}

// watchAge has it told when the stored objects become too old.
func (i *Informer) watchAge(ctx context.Context) {
	r := i.retention
	if r == nil {
		return
	}
	for {
		left := r.limit - r.age()
		if left < 0 {
			i.reviewSource()
			left = r.limit // what is confirmed from now on lasts longer
		}
		if sleep(ctx, i.clock, left+time.Nanosecond) != nil {
			return
		}
	}
}

// serves reports whether the stored objects may be read.
func (r *retention) serves() bool { return r.refuses() == nil }

// ageOf is how old is what was stored at one time and read at another, so long ago. A device without a battery for its clock starts in 1970, and is set later. So a clock
// that was behind when it was read counts as no time, and so does one that was not set when it was stored.
func ageOf(stored, read time.Time, since time.Duration) time.Duration {
	if !stored.IsZero() && stored.Before(clockSet) {
		return since
	}
	return max(0, read.Round(0).Sub(stored.Round(0))) + since
}

// clockSet is before any clock that was ever set.
var clockSet = time.Unix(0, 0).AddDate(10, 0, 0)
