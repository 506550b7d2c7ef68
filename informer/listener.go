package informer

import (
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"
	"k8s.io/klog/v2"
	"k8s.io/utils/buffer"
	"k8s.io/utils/clock"
)

// crashPause is how long a handler rests after a panic before it gets the next notification, as in client-go.
const crashPause = time.Second

// notification is one call of a handler.
type notification struct {
	// typ is cache.Added, cache.Updated or cache.Deleted.
	typ      cache.DeltaType
	old, new any
	// initial: OnAdd's isInInitialList.
	initial bool
	// first: the registration has not synced before this call has returned. Implied by initial.
	first bool
}

// call makes the call.
func (n notification) call(h cache.ResourceEventHandler) {
	switch n.typ {
	case cache.Added:
		h.OnAdd(n.new, n.initial)
	case cache.Updated:
		h.OnUpdate(n.old, n.new)
	case cache.Deleted:
		h.OnDelete(n.old)
	}
}

// listener is one registered handler: its pending notifications and the goroutine that makes the calls. It is
// the registration that users hold.
type listener struct {
	handler  cache.ResourceEventHandler
	logger   klog.Logger
	clock    clock.WithTicker
	upstream cache.DoneChecker
	tracker  *synctrack.SingleFileTracker

	stopped chan struct{} // closed by stop
	done    chan struct{} // closed when the handler is not running and never will be
	wake    chan struct{} // has a token when pending is not empty

	mu       sync.Mutex
	pending  *buffer.Ring[notification] // guarded by mu; unbounded
	stopOnce bool                       // guarded by mu

	resyncMu sync.Mutex
	// requestedResync is what the user asked for, resyncPeriod what is in force.
	requestedResync time.Duration
	resyncPeriod    time.Duration // guarded by resyncMu
	nextResync      time.Time     // guarded by resyncMu
}

var _ cache.ResourceEventHandlerRegistration = &listener{}

// newListener returns a listener that is not running.
func newListener(h cache.ResourceEventHandler, logger klog.Logger, c clock.WithTicker, upstream cache.DoneChecker) *listener {
	return &listener{
		handler:  h,
		logger:   logger,
		clock:    c,
		upstream: upstream,
		tracker:  synctrack.NewSingleFileTracker(upstream.Name() + " + event handler " + handlerName(h)),
		stopped:  make(chan struct{}),
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		pending:  buffer.NewRing[notification](buffer.RingOptions{InitialSize: 16, NormalSize: 1024}),
	}
}

// HasSynced reports whether the informer has synced and the handler has been given everything from before.
func (l *listener) HasSynced() bool { return l.tracker.HasSynced() }

// HasSyncedChecker is done when HasSynced becomes true.
func (l *listener) HasSyncedChecker() cache.DoneChecker { return l.tracker }

// ShutdownChan is closed when the handler has been removed, or the informer stopped, and its last call has
// returned. See cache.ShutDownEventHandler.
func (l *listener) ShutdownChan() <-chan struct{} { return l.done }

// add queues a notification. It never blocks.
func (l *listener) add(n notification) {
	n.first = n.first || n.initial
	if n.first {
		l.tracker.Start()
	}
	l.mu.Lock()
	l.pending.WriteOne(n)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// stop makes run and watchSynced return after the call that is being made. What is pending is dropped.
func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopOnce {
		l.stopOnce = true
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

func (l *listener) take() (notification, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending.ReadOne()
}

// deliver makes one call, and reports false if the handler panicked and the program is configured to survive that.
// The notification is lost then, and if it was one of the first sync the registration never syncs: client-go's behaviour
// (kubernetes#129024).
func (l *listener) deliver(n notification) (ok bool) {
	defer utilruntime.HandleCrashWithLogger(l.logger)
	n.call(l.handler)
	if n.first {
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
