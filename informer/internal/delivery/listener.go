package delivery

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// crashPause is how long a handler gets no notification after a panic, as in client-go.
const crashPause = time.Second

// Listener is one registered handler, and the registration: its pending calls and the goroutine that makes them.
type Listener struct {
	handler  cache.ResourceEventHandler
	Name     string // Name is formatted as in client-go
	order    int    // order is the position among the listeners; Handlers.Add sets it
	Logger   klog.Logger
	clock    clock.WithTicker
	upstream cache.DoneChecker
	tracker  *synctrack.SingleFileTracker

	// Ctx is canceled by stop, and carries the logger.
	Ctx     context.Context
	cancel  context.CancelFunc
	source  Source
	stopped chan struct{} // stopped is closed by stop
	done    chan struct{} // done is closed when the goroutine has ended, or will never start
	wake    chan struct{} // wake has capacity 1, and a token when there may be pending calls

	mu         sync.Mutex // mu guards the fields from pending to hasStopped
	pending    pending
	backlog    backlog
	resync     resyncing
	lag        lag
	hasStopped bool

	resyncMu sync.Mutex // resyncMu guards the fields below
	// requestedResync is the period that the user requested. resyncPeriod is the period in force.
	requestedResync time.Duration
	resyncPeriod    time.Duration
	nextResync      time.Time
}

var _ cache.ResourceEventHandlerRegistration = &Listener{}

// Source gives a listener its pages of stored objects. The listener's goroutine calls it, without a lock.
type Source interface {
	// NextPage reads a page of the backlog and calls AddPage. NextResync calls AddResync with a page, or EndResync.
	NextPage(l *Listener)
	NextResync(l *Listener)
	// Called is called after each call of the handler of that name, also after a panic.
	Called(handler string, took time.Duration)
}

// State is a snapshot of a listener: its name, the number of pending calls, and the number of merged updates.
type State struct {
	Name            string
	Pending, Merged int
}

// New returns a listener that is not running.
func New(
	h cache.ResourceEventHandler, logger klog.Logger, c clock.WithTicker, upstream cache.DoneChecker, s Source,
) *Listener {
	name := handlerName(h)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	return &Listener{
		Ctx:      ctx,
		cancel:   cancel,
		handler:  h,
		Name:     name,
		Logger:   logger,
		clock:    c,
		upstream: upstream,
		source:   s,
		tracker:  synctrack.NewSingleFileTracker(upstream.Name() + " + event handler " + name),
		stopped:  make(chan struct{}),
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		pending:  newPending(mergeThreshold),
	}
}

// HasSynced reports whether the informer has synced and the handler has received all initial objects.
func (l *Listener) HasSynced() bool { return l.tracker.HasSynced() }

// HasSyncedChecker is done when HasSynced becomes true.
func (l *Listener) HasSyncedChecker() cache.DoneChecker { return l.tracker }

// ShutdownChan is closed when the handler has been removed, or the informer stopped, and its last call has
// returned. See cache.ShutDownEventHandler.
func (l *Listener) ShutdownChan() <-chan struct{} { return l.done }

// add queues or merges a call, and never blocks. It adds log lines to due, since the caller may hold locks.
func (l *Listener) add(n Call, due *Lines) {
	if report := l.queue(n); report.what != lagNothing {
		due.Add(func() { l.log(report) })
	}
	l.poke()
}

func (l *Listener) queue(n Call) (report lagReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasStopped {
		return report
	}
	l.backlog.keep(&n)
	if l.resync.reading {
		if l.resync.changed == nil {
			l.resync.changed = map[string]struct{}{}
		}
		l.resync.changed[n.Key] = struct{}{}
	}
	n.Before = nil
	if n.Initial {
		n.Firsts = 1
	}
	if n.Firsts > 0 {
		l.tracker.Start()
	}
	l.pending.put(n)
	return l.lag.queued(&n, &l.pending, l.clock)
}

func (l *Listener) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// stop drops the pending calls. The listener's goroutines end after a running call has returned.
func (l *Listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasStopped {
		l.hasStopped = true
		// A call that never returns must not keep the objects in memory.
		l.pending, l.backlog, l.resync = newPending(mergeThreshold), backlog{}, resyncing{}
		l.cancel()
		close(l.stopped)
	}
}

func (l *Listener) run() {
	defer close(l.done)
	for {
		select {
		case <-l.stopped:
			return
		default:
		}
		if l.claimPage() {
			l.source.NextPage(l)
			continue
		}
		if l.claimResync() {
			l.source.NextResync(l)
			continue
		}
		n, ok := l.take()
		if !ok {
			select {
			case <-l.wake:
			case <-l.stopped:
			}
			continue
		}
		if !l.deliver(n) {
			l.pause()
		}
	}
}

// take returns the next call, or false if no call can be made now. The previous call must have returned.
func (l *Listener) take() (Call, bool) {
	l.mu.Lock()
	n, ok := l.backlog.take()
	if !ok && !l.backlog.active {
		n, ok = l.pending.take()
	}
	var report lagReport
	if !ok && !l.hasStopped && !l.backlog.active {
		report = l.lag.caughtUp(&l.pending)
	}
	l.mu.Unlock()
	l.log(report)
	return n, ok
}

// Status returns the handler's part of Informer.Status.
func (l *Listener) Status() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{Name: l.Name, Pending: len(l.backlog.calls) + l.pending.len(), Merged: l.pending.merged}
}

// deliver makes one call. It returns false if the handler panicked and the program is configured to survive that. The
// call is then lost. If it was an initial one the registration never syncs, as in client-go (kubernetes#129024).
func (l *Listener) deliver(n Call) (ok bool) {
	defer utilruntime.HandleCrashWithLogger(l.Logger)
	begun := l.clock.Now()
	defer func() { l.source.Called(l.Name, l.clock.Since(begun)) }() // a panic must be reported too
	n.call(l.handler)
	for range n.Firsts {
		l.tracker.Finished()
	}
	return true
}

func (l *Listener) pause() {
	t := l.clock.NewTimer(crashPause)
	defer t.Stop()
	select {
	case <-t.C():
	case <-l.stopped:
	}
}

// watchSynced waits until the informer has synced, and then allows the handler's registration to become synced.
func (l *Listener) watchSynced() {
	select {
	case <-l.upstream.Done():
		l.tracker.UpstreamHasSynced()
	case <-l.stopped:
	}
}

func (l *Listener) resyncDue(now time.Time) bool {
	l.resyncMu.Lock()
	defer l.resyncMu.Unlock()
	if l.resyncPeriod == 0 || now.Before(l.nextResync) {
		return false
	}
	l.nextResync = now.Add(l.resyncPeriod)
	return true
}

// SetResync sets the requested resync period and the one in force, before the listener is added.
func (l *Listener) SetResync(requested, period time.Duration) {
	l.resyncMu.Lock()
	defer l.resyncMu.Unlock()
	l.requestedResync, l.resyncPeriod, l.nextResync = requested, period, l.clock.Now().Add(period)
}

// LimitResync sets the resync period in force to fn of the requested period.
func (l *Listener) LimitResync(fn func(requested time.Duration) time.Duration) {
	l.resyncMu.Lock()
	defer l.resyncMu.Unlock()
	l.resyncPeriod = fn(l.requestedResync)
}

// InForce returns the resync period that is in force.
func (l *Listener) InForce() time.Duration {
	l.resyncMu.Lock()
	defer l.resyncMu.Unlock()
	return l.resyncPeriod
}

// Call is one call of a handler.
type Call struct {
	// Type is cache.Added, cache.Updated or cache.Deleted.
	Type     cache.DeltaType
	Key      string
	Old, New any
	// Before is the object stored before the change; nil if there was none, or if it cannot be read.
	Before runtime.Object
	// Firsts is the number of initial notifications in this call. The registration syncs only after the call.
	Firsts int32
	// Initial is OnAdd's isInInitialList.
	Initial bool
	// resync is true for an update by a resync: Old and New are the same object.
	resync bool
	// latest is true if this call is an update into which later updates of the same key could merge when it was queued.
	latest bool
}

func (n Call) call(h cache.ResourceEventHandler) {
	switch n.Type {
	case cache.Added:
		h.OnAdd(n.New, n.Initial)
	case cache.Updated:
		h.OnUpdate(n.Old, n.New)
	case cache.Deleted:
		h.OnDelete(n.Old)
	}
}

// merge merges the update next, which follows n, into n. A resync and an update become the update.
func (n *Call) merge(next *Call) {
	if n.resync && next.resync {
		n.Old = next.Old
	}
	n.New = next.New
	n.resync = n.resync && next.resync
	n.Firsts += next.Firsts
}

// lagInterval is the minimum time between two log lines about a handler that is behind.
const lagInterval = 10 * time.Minute

// lag decides when to log that a handler is behind: when an event is queued at or above the threshold, then every
// lagInterval while that lasts, and once when everything has been delivered. Replays and resyncs cause no line: they
// are queued page by page, so they do not show that the handler is slow.
type lag struct {
	warned time.Time
	behind bool // behind is true if the last log line reported that the handler is behind
}

type lagReport struct {
	what            lagEvent
	pending, merged int
}

type lagEvent int

const (
	lagNothing lagEvent = iota
	lagBehind
	lagCaughtUp
)

func (g *lag) queued(n *Call, q *pending, c clock.PassiveClock) lagReport {
	if q.len() < q.threshold || n.Firsts > 0 {
		return lagReport{}
	}
	now := c.Now()
	if !g.warned.IsZero() && now.Sub(g.warned) < lagInterval {
		return lagReport{}
	}
	g.warned, g.behind = now, true
	return lagReport{lagBehind, q.len(), q.merged}
}

func (g *lag) caughtUp(q *pending) lagReport {
	if !g.behind {
		return lagReport{}
	}
	g.behind = false
	return lagReport{what: lagCaughtUp, merged: q.merged}
}

// log writes a line. The caller holds no lock: see Lines.
func (l *Listener) log(r lagReport) {
	switch r.what {
	case lagBehind:
		l.Logger.Info("Event handler is behind; updates of one object are merged until it has caught up",
			"handler", l.Name, "informer", l.upstream.Name(), "pending", r.pending, "merged", r.merged)
	case lagCaughtUp:
		l.Logger.Info("Event handler has caught up", "handler", l.Name, "informer", l.upstream.Name(), "merged", r.merged)
	}
}

// handlerName formats a handler's name for logs and DoneCheckers as client-go does. client-go's function is private, so
// handlerName registers h with an informer that never runs and reads the registration's name.
func handlerName(h cache.ResourceEventHandler) string {
	never := cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})
	reg, err := never.AddEventHandler(h)
	if err != nil {
		return "unknown"
	}
	return strings.TrimPrefix(reg.HasSyncedChecker().Name(), never.HasSyncedChecker().Name()+" + event handler ")
}
