package reflector

import (
	"errors"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// These errors are the reasons why a connection is down. Status.Err and the errors of Options.OnError wrap them.
var (
	// ErrPanicked: the ListerWatcher, Options.Verify or Options.Compare panicked, and utilruntime.ReallyCrash is off.
	ErrPanicked = base.ErrPanicked
	// ErrOverdue: a call has not returned although its context has ended. The reflector waits for an overdue call of
	// the ListerWatcher; it abandons an overdue call of Options.Verify or Options.Compare.
	ErrOverdue = base.ErrOverdue
	// ErrPutOff: until the request timed out, the server's only answer was to retry later (Retry-After).
	ErrPutOff = request.ErrPutOff
	// ErrShortWatch: the server ended a watch without an error, but right after it began.
	ErrShortWatch = errors.New("the watch ended right after it began")
	// ErrSilent: neither events nor bookmarks arrived on the watch for minutes, although the server's resourceVersion
	// has changed.
	ErrSilent = errors.New("the watch is silent although the server has moved on: the connection is taken for dead")
)

// ErrStrays: the server sent an object of another type or scope than requested; Status.Stray wraps this error. A list
// fails with ErrStrays if all its objects had another type or scope, or were of other shards.
var ErrStrays = gate.ErrStrays

func isDenied(err error) bool { return errors.Is(err, ErrStrays) || request.Denied(err) }
