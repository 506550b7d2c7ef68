package metrics

import (
	"errors"
	"io"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// class is a kind of error that somebody can be called for; doc.go has the list.
type class string

const (
	healthy        class = "none"
	noSpace        class = "NoSpace"
	outcomeUnknown class = "OutcomeUnknown"
	damaged        class = "Damaged"
	slowDisk       class = "SlowDisk"
	stale          class = "Stale"
	closed         class = "Closed"
	denied         class = "Denied"
	notServed      class = "NotServed"
	server         class = "Server"
	connection     class = "Connection"
	other          class = "Other"
)

// classes are the values of the label class.
var classes = []class{healthy, noSpace, outcomeUnknown, damaged, slowDisk, stale, closed, denied, notServed, server, connection, other}

// stores are the classes of the store's errors.
var stores = []struct {
	err   error
	class class
}{
	{store.ErrNoSpace, noSpace}, {store.ErrOutcomeUnknown, outcomeUnknown}, {store.ErrDamaged, damaged}, {store.ErrSlowDisk, slowDisk},
	{informer.ErrStale, stale}, {store.ErrClosed, closed},
}

func classOf(err error) class {
	if err == nil {
		return healthy
	}
	for _, s := range stores {
		if errors.Is(err, s.err) {
			return s.class
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
