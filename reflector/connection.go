package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// connection is a session's connection with the server: the connection's fields of the Status, the callbacks OnError,
// OnLive and OnContact, the session's slots of Options.Limiter, and its back-off. Only the session's goroutine uses it;
// describe and open may be called by any goroutine.
type connection struct {
	o     Options
	board *board
	lw    request.Requests

	// live is the value of Status.Live that was reported last.
	live bool
	// connecting and listing are the session's slots of Options.Limiter: permissions to connect and to list.
	connecting, listing slot
	backoff             pace.Backoff
	// lastErr is the error that ended the last connection. It determines how long the back-off waits.
	lastErr error
}

func newConnection(r *Reflector) *connection {
	c := &connection{o: r.o, board: &r.board}
	c.lw = request.Of(r.lw, c)
	c.connecting.wait, c.listing.wait, c.listing.down = r.o.Limiter.Connect, r.o.Limiter.List, c.showDown
	return c
}

// setLive updates Status.Live and calls Options.OnLive if live has changed.
func (c *connection) setLive(live bool) {
	if c.live == live {
		return
	}
	c.live = live
	c.board.update(func(st *Status) { st.Live = live })
	if c.o.OnLive != nil {
		c.o.OnLive(live)
	}
}

// report sets Status.Err, clears Status.Live and calls Options.OnError. A request that does not return in time is
// reported too, since it may be the request that checks the connection.
func (c *connection) report(ctx context.Context, err error) {
	rv := ""
	c.board.update(func(st *Status) { st.Err, rv = err, st.ResourceVersion })
	klog.FromContext(ctx).V(2).Info("Connection lost", "err", err, "resourceVersion", rv)
	c.setLive(false)
	c.connecting.fails(true)
	c.listing.fails(true)
	if c.o.OnError != nil {
		c.o.OnError(ctx, err)
	}
}

// received reports to Options.Limiter that the server has answered or sent data, so the link is up. It does not confirm
// the stored objects: contact does.
func (c *connection) received() { c.o.Limiter.Received() }

// contact records that at this time the stored objects were the server's state, because the server confirmed them or
// sent a change. It is called before the sink receives the change, so that the time is stored with the change.
func (c *connection) contact(at time.Time) {
	c.board.update(func(st *Status) {
		if at.After(st.LastContact) {
			st.LastContact = at
		}
	})
	if c.o.OnContact != nil {
		c.o.OnContact(at)
	}
}

// overdueReporter returns the callback for a call that does not return although its time-out has passed. The callback
// reports the error and releases the session's slots of Options.Limiter, so that the call does not block other
// reflectors.
func (c *connection) overdueReporter(ctx context.Context, what string) func(error) {
	return func(err error) {
		c.report(ctx, c.describe(what, err))
		c.yield()
	}
}

// describe wraps err with the failed operation and the type. If the server's error has no message, describe adds its
// code and reason.
func (c *connection) describe(what string, err error) error {
	var answer apierrors.APIStatus
	if err.Error() == "" && errors.As(err, &answer) {
		status := answer.Status()
		return fmt.Errorf("%s %s: the server answered %d %s, without a message%w", what, c.o.TypeDescription, status.Code,
			status.Reason, err)
	}
	return fmt.Errorf("%s %s: %w", what, c.o.TypeDescription, err)
}

// open requests a watch from rv and waits until it is accepted. Any goroutine may call it. If the request does not
// return after its time-out, open calls overdue on the same goroutine and keeps waiting.
func (c *connection) open(ctx context.Context, rv string, timeout time.Duration, overdue func(error)) (*stream, error) {
	seconds := int64(timeout / time.Second)
	o := metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &seconds, AllowWatchBookmarks: true}
	st := &stream{timeout: time.Duration(seconds) * time.Second, begun: c.o.Clock.Now()}
	c.board.update(func(b *Status) { b.Watches++ })
	limited, cancel := context.WithCancel(ctx)
	st.cancel = cancel
	late := time.AfterFunc(pace.RequestTimeout, st.cancel)
	w, err := c.lw.Watch(ctx, limited, o, overdue)
	if err == nil && !late.Stop() {
		st.w = w
		st.close(ctx, c.o.Clock)
		return nil, c.describe("watch", context.DeadlineExceeded)
	}
	late.Stop()
	if err != nil {
		st.cancel()
		return nil, c.describe("watch", err)
	}
	st.w = w
	st.waitBegun = c.o.Clock.Now()
	return st, nil
}

// startOpening requests a watch on a new goroutine. The caller must wait for the result (wait, took) or cancel it
// (giveUp).
func (c *connection) startOpening(ctx context.Context, rv string, timeout time.Duration) *opening {
	o := &opening{clock: c.o.Clock, answers: make(chan opened, 2)}
	ctx, o.cancel = context.WithCancel(ctx)
	go func() {
		st, err := c.open(ctx, rv, timeout, func(err error) { o.answers <- opened{overdue: c.describe("watch", err)} })
		o.answers <- opened{st: st, err: err}
	}()
	return o
}

// showDown sets Status.Err to the error of the failed link, while this session waits in the queue of Options.Limiter.
func (c *connection) showDown(err error) {
	c.board.update(func(st *Status) { st.Err = c.describe("wait to connect for", err) })
}

// connected returns the session's permission to connect to Options.Limiter: the server has answered, or this session
// backs off.
func (c *connection) connected() {
	c.connecting.release()
}

// Await implements request.Awaiter. While a request waits for the first byte of its answer, the session's slots do not
// count against the maximum of Options.Limiter.
func (c *connection) Await() (answered func()) {
	c.connecting.current().Connecting()
	connecting, listing := c.connecting.current().Await(), c.listing.current().Await()
	return func() {
		connecting()
		listing()
	}
}

// GotConn implements request.Awaiter: a request has a network connection.
func (c *connection) GotConn() { c.connecting.current().Connected() }

// works is called when the server's state has been delivered. The session's next wait for a slot of Options.Limiter is
// then not behind other sessions.
func (c *connection) works() {
	c.connecting.fails(false)
	c.listing.fails(false)
}

// yield releases the slots to connect and to list while a call is overdue, since that call may never return.
func (c *connection) yield() {
	c.connected()
	c.listing.release()
}

// reportToLimiter reports the result of a request to Options.Limiter: either the server has answered, or the connection
// has failed.
func (c *connection) reportToLimiter(err error) {
	switch {
	case limiter.Answered(err), errors.Is(err, ErrPutOff):
		c.o.Limiter.Received()
	case !isUnanswered(err):
	default:
		if connecting := c.connecting.current(); connecting != nil {
			connecting.Failed(err)
		} else {
			c.o.Limiter.Lost(err)
		}
	}
}

// isUnanswered reports whether err says that no API server has answered. The error of a silent watch does not say that:
// if the link is down, the next request shows it.
func isUnanswered(err error) bool {
	return !errors.Is(err, ErrPutOff) && limiter.Unanswered(err)
}

// backOff returns how long to wait after lastErr, and a channel that ends the wait early (nil for none). While the link
// is down, the back-off of Options.Limiter applies to all sessions. After a first failure, or if only this resource
// fails, the session's own back-off applies. So a fleet does not reconnect all at once, and answers for other resources
// do not shorten this wait.
func (c *connection) backOff() (time.Duration, <-chan struct{}) {
	asked := request.RetryAfter(c.lastErr)
	wait := c.backoff.Next(asked)
	failures, next, recovered := c.o.Limiter.Down()
	if c.lastErr == nil || asked > 0 || !isUnanswered(c.lastErr) || failures < 2 {
		return wait, nil
	}
	return time.Until(next), recovered
}
