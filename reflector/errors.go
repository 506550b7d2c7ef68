package reflector

import (
	"errors"
	"fmt"

	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/request"
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
	ErrPutOff = request.ErrPutOff
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
var ErrStrays = gate.ErrStrays

// isDenied reports an answer that only a change at the server, or of the requests, mends.
func isDenied(err error) bool { return errors.Is(err, ErrStrays) || request.Denied(err) }

// describe wraps err with what was tried, keeping it unwrappable.
func (s *session) describe(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, s.o.TypeDescription, err)
}
