package reflector_test

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
)

// Tests compare the reflector's behaviour with these documented time-outs and limits.
const (
	callWait       = 5 * time.Second
	requestTimeout = 90 * time.Second
	silenceLimit   = 150 * time.Second
	// slowSinkAfter is how long a Sink's call may take before the slot to list is released.
	slowSinkAfter = 10 * time.Second
	health        = 2 * time.Minute
	newestSize    = 16
)

func below(a, b string) bool { return entry.NewerRV(b, a) }

func maxRV(a, b string) string {
	if !entry.ComparableRV(a) || below(a, b) {
		return b
	}
	return a
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
