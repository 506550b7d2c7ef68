package reflector_test

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
)

// The time-outs and limits of a reflector, as documented. Tests compare the behaviour with them.
const (
	callWait       = 5 * time.Second   // how long a call of the ListerWatcher may ignore the end of its context
	requestTimeout = 90 * time.Second  // time-out of a request's first attempt
	silenceLimit   = 150 * time.Second // how long a watch may be silent
	slowSinkAfter  = 10 * time.Second  // how long a sink's call may take before the slot to list is released
	health         = 2 * time.Minute   // age of a watch that resets the back-off
	newestSize     = 16                // maximum number of objects in history.Newest
)

// below reports whether a is lower than b. Both must be comparable.
func below(a, b string) bool { return entry.NewerRV(b, a) }

// maxRV returns the higher resourceVersion, or b if a is not comparable.
func maxRV(a, b string) string {
	if !entry.ComparableRV(a) || below(a, b) {
		return b
	}
	return a
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
