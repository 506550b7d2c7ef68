package reflector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/internal/limiter"
)

// connection is the connection of one Reflector.Run with the server: its fields of the Status, its callbacks OnError,
// OnLive and OnContact, its slots of Options.Limiter, and its back-off. Only Run's goroutine uses a connection, except
// describe and open, which any goroutine may call.
type connection struct {
	o     Options
	board *board
	lw    requests

	live bool
	// connecting and listing are the slots of Options.Limiter: permissions to connect and to list.
	connecting, listing slot
	backoff             backoff
	// lastErr is the error that ended the last connection. The wait of the back-off depends on this error.
	lastErr error
}

func newConnection(r *Reflector) *connection {
	c := &connection{o: r.o, board: &r.board}
	c.lw = requestsOf(r.lw, c)
	c.connecting.wait, c.listing.wait, c.listing.down = r.o.Limiter.Connect, r.o.Limiter.List, c.showDown
	return c
}

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

// report sets Status.Err, clears Status.Live and calls Options.OnError. Overdue requests are reported too, since an
// overdue request may be the probe of a silent connection.
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

// received tells Options.Limiter that the server has answered or sent data, so the link is up. Only the method contact
// confirms the stored objects.
func (c *connection) received() { c.o.Limiter.Received() }

// contact records that at this time the stored objects were the server's state, because the server confirmed them or
// sent a change. It is called before Sink.Event, so that the time is stored with the change.
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
// also releases the slots of Options.Limiter, so that the call does not block other reflectors.
func (c *connection) overdueReporter(ctx context.Context, what string) func(error) {
	return func(err error) {
		c.report(ctx, c.describe(what, err))
		c.yield()
	}
}

// describe wraps err with the failed operation and the type. If the server's error has no message, describe adds the
// answer's code and reason.
func (c *connection) describe(what string, err error) error {
	var answer apierrors.APIStatus
	if err.Error() == "" && errors.As(err, &answer) {
		status := answer.Status()
		return fmt.Errorf("%s %s: the server answered %d %s, without a message%w", what, c.o.TypeDescription, status.Code,
			status.Reason, err)
	}
	return fmt.Errorf("%s %s: %w", what, c.o.TypeDescription, err)
}

// open requests a watch from rv and waits until the server accepts it. If the request does not return after its
// time-out, open calls overdue on the same goroutine and keeps waiting.
func (c *connection) open(ctx context.Context, rv string, timeout time.Duration, overdue func(error)) (*stream, error) {
	seconds := int64(timeout / time.Second)
	o := metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &seconds, AllowWatchBookmarks: true}
	st := &stream{timeout: time.Duration(seconds) * time.Second, begun: c.o.Clock.Now()}
	c.board.update(func(b *Status) { b.Watches++ })
	limited, cancel := context.WithCancel(ctx)
	st.cancel = cancel
	late := time.AfterFunc(requestTimeout, st.cancel)
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

// startOpening requests a watch on a new goroutine. The caller must wait for the result (opening.wait, opening.took) or
// cancel the request (opening.giveUp).
func (c *connection) startOpening(ctx context.Context, rv string, timeout time.Duration) *opening {
	o := &opening{clock: c.o.Clock, answers: make(chan opened, 2)}
	ctx, o.cancel = context.WithCancel(ctx)
	go func() {
		st, err := c.open(ctx, rv, timeout, func(err error) { o.answers <- opened{overdue: c.describe("watch", err)} })
		o.answers <- opened{st: st, err: err}
	}()
	return o
}

func (c *connection) showDown(err error) {
	c.board.update(func(st *Status) { st.Err = c.describe("wait to connect for", err) })
}

func (c *connection) connected() {
	c.connecting.release()
}

// Await implements awaiter. While a request waits for the first byte of its answer, the slots of this
// connection do not count against the maximum of Options.Limiter.
func (c *connection) Await() (answered func()) {
	c.connecting.current().Connecting()
	connecting, listing := c.connecting.current().Await(), c.listing.current().Await()
	return func() {
		connecting()
		listing()
	}
}

func (c *connection) GotConn() { c.connecting.current().Connected() }

// works is called when the server's state has been delivered. After that, waits for a slot of Options.Limiter no longer
// are behind other reflectors.
func (c *connection) works() {
	c.connecting.fails(false)
	c.listing.fails(false)
}

// yield releases the slots to connect and to list while a call is overdue, since that call may never return.
func (c *connection) yield() {
	c.connected()
	c.listing.release()
}

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

// isUnanswered reports whether err says that no API server has answered. ErrSilent, the error of a silent watch, does
// not say that: if the link is down, the next request shows it.
func isUnanswered(err error) bool {
	return !errors.Is(err, ErrPutOff) && limiter.Unanswered(err)
}

// backOff returns how long to wait after lastErr, and a channel that ends the wait early (nil for none). While the link
// is down, one back-off of Options.Limiter applies to all reflectors. After a first failure, or if only this resource
// fails, this connection's own back-off applies. So a fleet does not reconnect all at once, and answers for other
// resources do not shorten this wait.
func (c *connection) backOff() (time.Duration, <-chan struct{}) {
	asked := retryAfter(c.lastErr)
	wait := c.backoff.Next(asked)
	failures, next, recovered := c.o.Limiter.Down()
	if c.lastErr == nil || asked > 0 || !isUnanswered(c.lastErr) || failures < 2 {
		return wait, nil
	}
	return time.Until(next), recovered
}

type opened struct {
	st  *stream
	err error
	// overdue is not nil if this value only says that the request has outlived its time-out. The request's result
	// follows in another value.
	overdue error
}

// opening is a watch request on its own goroutine, so that pages of a list can be fetched at the same time.
type opening struct {
	clock   clock.Clock
	answers chan opened
	cancel  context.CancelFunc
}

func (o *opening) answer() <-chan opened {
	if o == nil {
		return nil
	}
	return o.answers
}

// wait waits for the result of the watch request. It calls overdue if the request outlives its time-out.
func (o *opening) wait(overdue func(error)) (*stream, error) {
	for {
		a := <-o.answers
		if a.overdue == nil {
			return o.took(a)
		}
		overdue(a.overdue)
	}
}

// took returns a result's open watch, which then owns the request's context, or the result's error.
func (o *opening) took(a opened) (*stream, error) {
	if a.err != nil {
		o.cancel()
		return nil, a.err
	}
	inner := a.st.cancel
	a.st.cancel = func() { inner(); o.cancel() }
	return a.st, nil
}

// giveUp cancels the watch request and waits for its goroutine. If a watch was opened meanwhile, giveUp closes it.
func (o *opening) giveUp(ctx context.Context) {
	if o == nil {
		return
	}
	o.cancel()
	if st, err := o.wait(func(error) {}); err == nil {
		st.close(ctx, o.clock)
	}
}

// slowSinkAfter is how long a call of the Sink may block before the reflector releases its permission to list (a slot
// of Options.Limiter). A full Sink may block for long, and other reflectors wait for the permission.
const slowSinkAfter = 10 * time.Second

// slot is a permission of Options.Limiter, either to connect or to list. The permission to connect is released when the
// server has accepted the watch or answered the first page. The permission to list is released at the end of the list,
// while a page waits for its retry, and while the Sink blocks for longer than slowSinkAfter. Both permissions are
// released while a call is overdue.
type slot struct {
	wait func(ctx context.Context, failed bool, down func(error)) (*limiter.Slot, error)
	// down is called with the link's error if the link fails while acquire waits.
	down func(error)

	mu sync.Mutex
	// held is nil without a permission. mu guards held.
	held *limiter.Slot
	// failed is true if the last request has failed; then acquire waits behind other reflectors. mu guards failed.
	failed bool
}

// acquire waits for the Limiter's permission, unless the slot has it. Only one goroutine at a time may call acquire.
func (p *slot) acquire(ctx context.Context) error {
	p.mu.Lock()
	has, failed := p.held != nil, p.failed
	p.mu.Unlock()
	if has {
		return nil
	}
	held, err := p.wait(ctx, failed, p.down)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	return err
}

func (p *slot) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.Done()
	p.held = nil
}

func (p *slot) current() *limiter.Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *slot) fails(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = is
}

// releaseIfSlow releases the permission after slowSinkAfter, unless the caller calls the returned function before.
func (p *slot) releaseIfSlow() (returned func() bool) {
	return time.AfterFunc(slowSinkAfter, p.release).Stop
}
