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

// class is a kind of error to alert on; doc.go has the list.
type class string

const (
	healthy        class = "none"
	noSpace        class = "NoSpace"
	replaced       class = "Replaced"
	outcomeUnknown class = "OutcomeUnknown"
	damaged        class = "Damaged"
	slowDisk       class = "SlowDisk"
	closed         class = "Closed"
	denied         class = "Denied"
	notServed      class = "NotServed"
	server         class = "Server"
	connection     class = "Connection"
	otherCluster   class = "OtherCluster"
	strays         class = "Strays"
	other          class = "Other"
)

// classes are the values of the label class.
var classes = []class{
	healthy, noSpace, replaced, outcomeUnknown, damaged, slowDisk, closed, denied, notServed, server, connection,
	otherCluster,
	strays, other,
}

// ours has the classes of Larder's own errors.
var ours = []struct {
	err   error
	class class
}{
	{store.ErrNoSpace, noSpace}, {store.ErrReplaced, replaced}, {store.ErrOutcomeUnknown, outcomeUnknown},
	{entry.ErrDamaged, damaged}, {store.ErrSlowDisk, slowDisk},
	{store.ErrClosed, closed}, {store.ErrOtherCluster, otherCluster}, {reflector.ErrStrays, strays},
	{reflector.ErrPutOff, server}, // it ran out of time, but not for want of a connection
}

func classOf(err error) class {
	if err == nil {
		return healthy
	}
	for _, o := range ours {
		if errors.Is(err, o.err) {
			return o.class
		}
	}
	var answer apierrors.APIStatus
	var network net.Error
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return denied
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return notServed
	case errors.As(err, &answer):
		return server
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, reflector.ErrShortWatch), errors.Is(err, reflector.ErrSilent), errors.Is(err, reflector.ErrOverdue):
		return connection
	}
	return other
}
