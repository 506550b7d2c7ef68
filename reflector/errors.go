package reflector

import (
	"errors"

	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// The reasons why a connection is down. The errors in Status.Err and of Options.OnError wrap them.
var (
	// ErrPanicked: the ListerWatcher, Options.Verify or Options.Compare panicked, and utilruntime.ReallyCrash is off.
	ErrPanicked = guest.ErrPanicked
	// ErrOverdue: a call has not returned although its context has ended. The reflector still waits for a call of the
	// ListerWatcher; it abandons a call of Options.Verify or Options.Compare.
	ErrOverdue = guest.ErrOverdue
	// ErrPutOff: until the request's time was up, the server only answered that the request should be made later
	// (Retry-After).
	ErrPutOff = request.ErrPutOff
	// ErrShortWatch: the server ended a watch in order, but right after it began.
	ErrShortWatch = errors.New("the watch ended right after it began")
	// ErrSilent: neither events nor bookmarks came for minutes, although the server's resourceVersion has changed.
	ErrSilent = errors.New("the watch is silent although the server has moved on: the connection is taken for dead")
)

// The reasons why lists are not requested as a watch for the rest of the run.
var (
	// ErrNoInitialEvents: the server accepted the watch, but does not mark the end of its initial events.
	ErrNoInitialEvents = errors.New("the server does not mark the end of a watch's initial events")
	// ErrSlowInitialEvents: the initial events did not end within the watch's time-out, or nothing came for minutes.
	ErrSlowInitialEvents = errors.New("a watch's initial events did not come to their end in time")
)

// ErrStrays: the server sent an object that was not requested (Status.Stray wraps it). Or a list had only such objects,
// or was of another shard, and was thrown away.
var ErrStrays = gate.ErrStrays

// isDenied reports whether err goes away only if the server, or the requests, are changed.
func isDenied(err error) bool { return errors.Is(err, ErrStrays) || request.Denied(err) }
