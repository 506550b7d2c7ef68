package informer

import (
	"context"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// crashPause is how long a handler rests after a panic before it gets the next notification, as in client-go.
const crashPause = time.Second

// listener is one registered handler: its pending notifications and the goroutine that makes the calls. It is
// the registration that users hold.
type listener struct {
	handler  cache.ResourceEventHandler
	name     string
	order    int // among the listeners; set by processor.add
	logger   klog.Logger
	clock    clock.WithTicker
	upstream cache.DoneChecker
	tracker  *synctrack.SingleFileTracker
	called   func(handler string, took time.Duration) // told of each call; may be nil

	// ctx ends with stop. It has the logger.
	ctx     context.Context
	cancel  context.CancelFunc
	more    func(*listener) // gives the next page of the backlog
	resyncs func(*listener) // gives the next page of a resync
	stopped chan struct{}   // closed by stop
	done    chan struct{}   // closed when the handler is not running and never will be
	wake    chan struct{}   // has a token when there may be something to do

	mu         sync.Mutex
	pending    pending   // guarded by mu
	backlog    backlog   // guarded by mu
	resync     resyncing // guarded by mu
	lag        lag       // guarded by mu
	hasStopped bool      // guarded by mu

	resyncMu sync.Mutex
	// requestedResync is what the user asked for, resyncPeriod what is in force.
	requestedResync time.Duration
	resyncPeriod    time.Duration // guarded by resyncMu
	nextResync      time.Time     // guarded by resyncMu
}

var _ cache.ResourceEventHandlerRegistration = &listener{}

// newListener returns a listener that is not running.
func newListener(h cache.ResourceEventHandler, logger klog.Logger, c clock.WithTicker, upstream cache.DoneChecker) *listener {
	name := handlerName(h)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	return &listener{
		ctx:      ctx,
		cancel:   cancel,
		handler:  h,
		name:     name,
		logger:   logger,
		clock:    c,
		upstream: upstream,
		tracker:  synctrack.NewSingleFileTracker(upstream.Name() + " + event handler " + name),
		stopped:  make(chan struct{}),
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		pending:  newPending(mergeThreshold),
	}
}

// HasSynced reports whether the informer has synced and the handler has been given everything from before.
func (l *listener) HasSynced() bool { return l.tracker.HasSynced() }

// HasSyncedChecker is done when HasSynced becomes true.
func (l *listener) HasSyncedChecker() cache.DoneChecker { return l.tracker }

// ShutdownChan is closed when the handler has been removed, or the informer stopped, and its last call has
// returned. See cache.ShutDownEventHandler.
func (l *listener) ShutdownChan() <-chan struct{} { return l.done }

// add queues a notification, or merges it into one that is pending (see pending). It never blocks. What is to be logged
// is added to due, since the caller may hold locks.
func (l *listener) add(n notification, due *lines) {
	if report := l.queue(n); report.what != lagNothing {
		due.add(func() { l.log(report) })
	}
	l.poke()
}

func (l *listener) queue(n notification) (report lagReport) {
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
		l.resync.changed[n.key] = struct{}{}
	}
	n.before = nil
	if n.initial {
		n.firsts = 1
	}
	if n.firsts > 0 {
		l.tracker.Start()
	}
	l.pending.put(n)
	return l.lag.queued(&n, &l.pending, l.clock)
}

// poke lets run look again.
func (l *listener) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// stop makes run and watchSynced return after the call that is being made. What is pending is dropped.
func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasStopped {
		l.hasStopped = true
		l.pending, l.backlog, l.resync = newPending(mergeThreshold), backlog{}, resyncing{} // a call that never returns must not hold the objects
		l.cancel()
		close(l.stopped)
	}
}

// run makes the calls, in order, until stop.
func (l *listener) run() {
	defer close(l.done)
	for {
		select {
		case <-l.stopped:
			return
		default:
		}
		if l.claimPage() {
			l.more(l)
			continue
		}
		if l.claimResync() {
			l.resyncs(l)
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

// take returns the next notification; it is false if there is none, and then every call has returned.
func (l *listener) take() (notification, bool) {
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

// status is the handler's part of Informer.Status.
func (l *listener) status() HandlerStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return HandlerStatus{Name: l.name, Pending: len(l.backlog.calls) + l.pending.len(), Merged: l.pending.merged}
}

// deliver makes one call, and reports false if the handler panicked and the program is configured to survive that.
// The notification is lost then, and if it was one of the first sync the registration never syncs: client-go's behaviour
// (kubernetes#129024).
func (l *listener) deliver(n notification) (ok bool) {
	defer utilruntime.HandleCrashWithLogger(l.logger)
	if l.called != nil {
		begun := l.clock.Now()
		defer func() { l.called(l.name, l.clock.Since(begun)) }() // after a panic too
	}
	n.call(l.handler)
	for range n.firsts {
		l.tracker.Finished()
	}
	return true
}

func (l *listener) pause() {
	t := l.clock.NewTimer(crashPause)
	defer t.Stop()
	select {
	case <-t.C():
	case <-l.stopped:
	}
}

// watchSynced tells the tracker when the informer has synced.
func (l *listener) watchSynced() {
	select {
	case <-l.upstream.Done():
		l.tracker.UpstreamHasSynced()
	case <-l.stopped:
	}
}

// resyncDue reports whether a resync is due at now, and if so plans the next one.
func (l *listener) resyncDue(now time.Time) bool {
	l.resyncMu.Lock()
	defer l.resyncMu.Unlock()
	if l.resyncPeriod == 0 || now.Before(l.nextResync) {
		return false
	}
	l.nextResync = now.Add(l.resyncPeriod)
	return true
}

func (l *listener) setResyncPeriod(d time.Duration) {
	l.resyncMu.Lock()
	defer l.resyncMu.Unlock()
	l.resyncPeriod = d
}
