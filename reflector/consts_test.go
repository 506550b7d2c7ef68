package reflector_test

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
)

// What a reflector promises, in figures.
const (
	callWait       = 5 * time.Second   // for a call that does not heed its context
	requestTimeout = 90 * time.Second  // of a request at first
	silenceLimit   = 150 * time.Second // without a word on a watch
	maxSilence     = 10 * time.Minute  // where servers are known to be silent
	streamTime     = 6 * time.Hour     // for a list by a watch
	slowSinkAfter  = 10 * time.Second  // of waiting for the sink a place is lent
	health         = 2 * time.Minute   // of a watch, after which a failure is the first
	newestSize     = 16                // objects that are compared after a lost connection
)

// below compares two resourceVersions that can be.
func below(a, b string) bool { return entry.NewerRV(b, a) }

// maxRV returns the larger one; one that cannot be compared loses.
func maxRV(a, b string) string {
	if !entry.ComparableRV(a) || below(a, b) {
		return b
	}
	return a
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
