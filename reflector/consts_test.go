package reflector_test

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
)

// Tests compare the reflector's behaviour with these documented time-outs and limits.
const (
	// callWait is how long a call of the ListerWatcher may ignore the end of its context.
	callWait = 5 * time.Second
	// requestTimeout is the time-out of a request's first attempt.
	requestTimeout = 90 * time.Second
	// silenceLimit is how long a watch may be silent.
	silenceLimit = 150 * time.Second
	// slowSinkAfter is how long a Sink's call may take before the slot to list is released.
	slowSinkAfter = 10 * time.Second
	// health is the age of a watch that resets the back-off.
	health = 2 * time.Minute
	// newestSize is the maximum number of objects in history.Newest.
	newestSize = 16
)

func below(a, b string) bool { return entry.NewerRV(b, a) }

func maxRV(a, b string) string {
	if !entry.ComparableRV(a) || below(a, b) {
		return b
	}
	return a
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
