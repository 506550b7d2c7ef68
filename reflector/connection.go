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

// connection is a session's connection with the server: its part of the Status, its callbacks (OnError, OnLive,
// OnContact), its slots of Options.Limiter, and its back-off. Only the session's goroutine uses it, except describe and
// open.
type connection struct {
	o     Options
	board *board
	lw    request.Requests

	// live is Status.Live.
	live bool
	// connecting is the slot to connect, listing the slot to list.
	connecting, listing slot
	backoff             pace.Backoff
	// lastErr is the error that ended the last connection. The back-off in the states Backoff and Degraded follows it.
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

// report sets Status.Err, clears Status.Live and calls Options.OnError. An overdue request is reported too, since it
// may be the request that checks the connection.
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

// received reports to Options.Limiter that the server has answered or sent data. That says nothing about the contents:
// see contact.
func (c *connection) received() { c.o.Limiter.Received() }

// contact records that the contents were the server's state at that time: the server has confirmed them, or has moved
// them on. It is called before the sink receives the change, so that the time is stored with it.
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

// overdueReporter returns the callback for an overdue call that the session's goroutine waits for. It reports the error
// and releases both slots, so that the call does not block other reflectors.
func (c *connection) overdueReporter(ctx context.Context, what string) func(error) {
	return func(err error) {
		c.report(ctx, c.describe(what, err))
		c.yield()
	}
}

// describe wraps err with the operation and the type. For a server's error without a message it adds the code and
// reason.
func (c *connection) describe(what string, err error) error {
	var answer apierrors.APIStatus
	if err.Error() == "" && errors.As(err, &answer) {
		status := answer.Status()
		return fmt.Errorf("%s %s: the server answered %d %s, without a message%w", what, c.o.TypeDescription, status.Code,
			status.Reason, err)
	}
	return fmt.Errorf("%s %s: %w", what, c.o.TypeDescription, err)
}

// open requests a watch from rv and waits until it is accepted. Any goroutine may call it. While the request is
// overdue, overdue is called on the same goroutine.
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

// startOpening requests a watch on a new goroutine. The caller must call wait, took or giveUp of the result.
func (c *connection) startOpening(ctx context.Context, rv string, timeout time.Duration) *opening {
	o := &opening{clock: c.o.Clock, answers: make(chan opened, 2)}
	ctx, o.cancel = context.WithCancel(ctx)
	go func() {
		st, err := c.open(ctx, rv, timeout, func(err error) { o.answers <- opened{overdue: c.describe("watch", err)} })
		o.answers <- opened{st: st, err: err}
	}()
	return o
}

// showDown sets Status.Err to the error of the link, while this session waits for another session to connect.
func (c *connection) showDown(err error) {
	c.board.update(func(st *Status) { st.Err = c.describe("wait to connect for", err) })
}

// connected releases the slot to connect: the server has answered, or this session backs off.
func (c *connection) connected() {
	c.connecting.release()
}

// Await implements request.Awaiter. The slots do not count while a server does not answer.
func (c *connection) Await() (answered func()) {
	c.connecting.current().Connecting()
	connecting, listing := c.connecting.current().Await(), c.listing.current().Await()
	return func() {
		connecting()
		listing()
	}
}

// GotConn implements request.Awaiter.
func (c *connection) GotConn() { c.connecting.current().Connected() }

// works is called when everything has been delivered: the next acquire does not wait behind other sessions.
func (c *connection) works() {
	c.connecting.fails(false)
	c.listing.fails(false)
}

// yield releases both slots while a call is overdue, since that call may never return.
func (c *connection) yield() {
	c.connected()
	c.listing.release()
}

// reportToLimiter reports err to Options.Limiter: the server has answered, or the connection has failed.
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

// isUnanswered reports whether err says that no API server has answered. A silent watch is no such error: if the link
// is down, the next request shows that.
func isUnanswered(err error) bool {
	return !errors.Is(err, ErrPutOff) && limiter.Unanswered(err)
}

// backOff returns how long to wait after lastErr, and a channel that ends the wait early (nil for none). While the link
// is down, the limiter's back-off applies to all sessions. After a first failure, and if only this resource fails, the
// session's own applies. Then a fleet does not return at once, and another resource's answers do not end the wait.
func (c *connection) backOff() (time.Duration, <-chan struct{}) {
	asked := request.RetryAfter(c.lastErr)
	wait := c.backoff.Next(asked)
	failures, next, recovered := c.o.Limiter.Down()
	if c.lastErr == nil || asked > 0 || !isUnanswered(c.lastErr) || failures < 2 {
		return wait, nil
	}
	return time.Until(next), recovered
}
