package reflector_test

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// What a reflector promises, in figures.
const (
	callWait       = 5 * time.Second   // for a call that does not heed its context
	requestTimeout = 90 * time.Second  // of a request at first
	silenceLimit   = 150 * time.Second // without a word on a watch
	maxSilence     = 10 * time.Minute  // where servers are known to be silent
	streamTime     = 6 * time.Hour     // for a list by a watch
	lendAfter      = 10 * time.Second  // of waiting for the sink a place is lent
	earlyTime      = 300 * time.Millisecond
	health         = 2 * time.Minute // of a watch, after which a failure is the first
	newestSize     = 16              // objects that are compared after a lost connection
)

// comparableRV reports whether rv can be compared.
func comparableRV(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}

// below compares two resourceVersions that can be.
func below(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// maxRV returns the larger one; one that can not be compared loses.
func maxRV(a, b string) string {
	if !comparableRV(a) || below(a, b) {
		return b
	}
	return a
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
