package metrics

import (
	"errors"
	"io"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// classes are the classes of errors for alerts, described in docs/metrics.md. An error has the first class that fits.
var classes = []struct {
	name string
	fits func(error) bool
}{
	{"none", func(err error) bool { return err == nil }},
	{"NoSpace", is(store.ErrNoSpace)},
	{"Replaced", is(store.ErrReplaced, store.ErrOverwritten)},
	{"OutcomeUnknown", is(store.ErrOutcomeUnknown)},
	{"Damaged", is(entry.ErrDamaged)},
	{"SlowDisk", is(store.ErrSlowDisk)},
	{"Closed", is(store.ErrClosed)},
	{"OtherCluster", is(store.ErrOtherCluster)},
	{"Strays", is(reflector.ErrStrays)},
	{"Denied", apierrors.IsUnauthorized},
	{"Forbidden", apierrors.IsForbidden},
	{"NotServed", func(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }},
	{"Connection", func(err error) bool { // client-go returns this error for a connection that breaks during a watch.
		return apierrors.HasStatusCause(err, "ClientWatchDecoding")
	}},
	{"Server", func(err error) bool {
		var answer apierrors.APIStatus
		return errors.As(err, &answer) || errors.Is(err, reflector.ErrPutOff) // ErrPutOff: the server did not answer in time
	}},
	{"Connection", func(err error) bool {
		var network net.Error
		return errors.As(err, &network) || is(io.EOF, io.ErrUnexpectedEOF, reflector.ErrShortWatch, reflector.ErrSilent,
			reflector.ErrOverdue)(err)
	}},
	{"Other", func(error) bool { return true }},
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func classOf(err error) string {
	for _, c := range classes {
		if c.fits(err) {
			return c.name
		}
	}
	return ""
}
