package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/internal/guest"
)

// Why a connection is down; Status.Err and Options.OnError wrap them.
var (
	// ErrPanicked: the ListerWatcher, Options.Verify or Options.Lookup panicked, and utilruntime.ReallyCrash is off.
	ErrPanicked = guest.ErrPanicked
	// ErrOverdue: a call has not returned although its context has ended. One of the ListerWatcher is still waited for,
	// one of Options.Verify or Options.Lookup is left to itself.
	ErrOverdue = guest.ErrOverdue
	// ErrPutOff: the server has answered, and said no more than that it is to be asked later, for as long as the request
	// had.
	ErrPutOff = errors.New("the server puts the request off")
	// ErrShortWatch: the server ended a watch in order, but right after it began.
	ErrShortWatch = errors.New("the watch ended right after it began")
	// ErrSilent: neither events nor bookmarks came for minutes, although the server has moved on.
	ErrSilent = errors.New("the watch is silent although the server has moved on: the connection is taken for dead")
)

// Why a list does not come as a watch for the rest of the run.
var (
	// ErrNoInitialEvents: the server took the watch, but does not tell where its initial events end.
	ErrNoInitialEvents = errors.New("the server does not mark the end of a watch's initial events")
	// ErrSlowInitialEvents: the watch's whole time was not enough, or nothing came for minutes.
	ErrSlowInitialEvents = errors.New("a watch's initial events did not come to their end in time")
)

// ErrStrays: objects came that are none of those asked for (Status.Stray wraps it); or a list had nothing else, or was
// of another shard, so it was thrown away.
var ErrStrays = errors.New("something else is listed than was asked for")

// isExpired reports a 410: the history, or the continue token, is gone.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isTooLarge reports that the server does not know our resourceVersion yet. Servers
// before 1.19 tell it by message only (as client-go's reflector takes into account).
func isTooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	return apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

// isDenied reports an answer that only a change at the server mends: rights, or a resource that is not served.
func isDenied(err error) bool {
	return errors.Is(err, ErrStrays) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) ||
		apierrors.IsMethodNotSupported(err)
}

// isRefused reports that the server does not take the request's parameters.
func isRefused(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// inTheBody is part of what client-go's REST client says of every answer whose body broke off, whatever the transport's
// error was; it has no error of its own for that.
const inTheBody = "reading response body"

// isCut reports that an answer did not come in time, or not to its end: less of it might. A 504 is the server's, or a
// gateway's, word for the same. A connection that could not be made, or was lost before the answer, says nothing about
// its size, and neither does a server that puts a request off.
func isCut(err error) bool {
	if errors.Is(err, ErrPutOff) {
		return false
	}
	if _, ok := apiStatus(err); ok {
		return apierrors.IsTimeout(err) && !isTooLarge(err)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	var late net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), inTheBody)
}

// retryAfter is what the server asked us to wait.
func retryAfter(err error) time.Duration {
	if s, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(s) * time.Second
	}
	return 0
}

// describe wraps err with what was tried, keeping it unwrappable.
func (s *session) describe(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, s.o.TypeDescription, err)
}

// apiStatus is the Status of an API error.
func apiStatus(err error) (metav1.Status, bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return metav1.Status{}, false
	}
	return s.Status(), true
}
