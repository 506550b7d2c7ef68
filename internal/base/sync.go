package base

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

var (
	// ErrPanicked: the called function panicked while utilruntime.ReallyCrash is off.
	ErrPanicked = errors.New("the call panicked; the log has the stack")
	// ErrOverdue: the called function has not returned some time after the end of its context.
	ErrOverdue = errors.New("it must return when its context ends")
)

// Guest calls one function of the user. Set its fields before the first Call.
type Guest[T any] struct {
	// What names the called function in log messages.
	What string
	// Wait is the time that the function has to return after the end of its context.
	Wait time.Duration
	// Overdue, if set, is called once when a call exceeds Wait, with an error that wraps ErrOverdue. It runs on the
	// goroutine of Call, which then waits until the caller's own context ends. Without Overdue, Call abandons the running
	// function and returns that error. While five functions are abandoned, Call starts no other function.
	Overdue func(err error)
	// Drop, if set, receives the result of an abandoned function that returns at last.
	Drop func(T)

	left atomic.Int32 // number of abandoned functions that have not returned yet
}

// maxLeft is the maximum number of abandoned calls of one function. Without this limit, each attempt to call a function
// that never returns would cost a goroutine.
const maxLeft = 5

type answer[T any] struct {
	v   T
	err error
}

// Call calls fn with the context limited and returns the result of fn. limited bounds the time of fn and must end no
// later than ctx. Call is safe for concurrent use.
func (g *Guest[T]) Call(ctx, limited context.Context, fn func(ctx context.Context) (T, error)) (T, error) {
	if n := g.left.Load(); n >= maxLeft {
		var none T
		return none, fmt.Errorf("%d earlier calls have not returned, so no other was made: %w", n, ErrOverdue)
	}
	begun := time.Now()
	answers := make(chan answer[T])
	left := make(chan struct{})
	go g.run(ctx, limited, fn, answers, left)
	var late <-chan time.Time
	ended := limited.Done()
	for {
		select {
		case a := <-answers:
			return a.v, a.err
		case <-ended:
			timer := time.NewTimer(g.Wait)
			defer timer.Stop()
			late, ended = timer.C, nil
		case <-late:
			late = nil
			err := context.Cause(ctx)
			if ctx.Err() == nil {
				err = fmt.Errorf("the call has not returned for %v: %w", time.Since(begun).Round(time.Second), ErrOverdue)
				if g.Overdue != nil {
					g.Overdue(err)
					ended = ctx.Done()
					continue
				}
			}
			g.left.Add(1)
			close(left)
			klog.FromContext(ctx).Info("A call does not heed its context; it is left to itself", "call", g.What, "after",
				time.Since(begun))
			var none T
			return none, err
		}
	}
}

func (g *Guest[T]) run(ctx, limited context.Context, fn func(context.Context) (T, error), answers chan<- answer[T],
	left <-chan struct{}) {
	a := answer[T]{err: ErrPanicked}
	defer func() {
		select {
		case answers <- a:
		case <-left:
			g.left.Add(-1)
			g.drop(ctx, a)
		}
	}()
	defer utilruntime.HandleCrashWithContext(ctx)
	a.v, a.err = fn(limited)
}

func (g *Guest[T]) drop(ctx context.Context, a answer[T]) {
	if a.err != nil || g.Drop == nil {
		return
	}
	defer utilruntime.HandleCrashWithContext(ctx)
	g.Drop(a.v)
}

type tried struct{ error }

func (t tried) Unwrap() error { return t.error }

// Panicked reports whether Try made err of a panic.
func Panicked(err error) bool { return errors.As(err, &tried{}) }

// Try calls fn on the caller's goroutine and returns the error of fn. If fn panics, Try returns an error that begins
// with what. The error contains the panic value only if that is a runtime.Error, because other values may contain an
// object's content.
func Try(what string, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			err = tried{fmt.Errorf("%s panicked: %w", what, r)}
		default:
			err = tried{fmt.Errorf("%s panicked with a %T", what, r)}
		}
	}()
	return fn()
}

// worth is the amount of work for which a goroutine is worth its cost, in bytes of payload to decode: dozens of small
// objects, or a large one.
const worth = 256 << 10

// Parallel calls fn with each number below n, in any order, on up to GOMAXPROCS goroutines. It returns when all calls
// have returned. cost estimates the work of all calls, in bytes of payload to decode. A small amount of work is done on
// the caller's goroutine. fn must not panic.
func Parallel(n, cost int, fn func(i int)) {
	workers := min(n, cost/worth, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			fn(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			fn(i)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// Mutex is a mutex whose LockContext stops waiting when a context ends, for critical sections that may wait for the
// disk. Create it with NewMutex.
type Mutex chan struct{}

// NewMutex returns an unlocked mutex.
func NewMutex() Mutex { return make(Mutex, 1) }

// Lock locks the mutex.
func (m Mutex) Lock() { m <- struct{}{} }

// TryLock locks the mutex if it is unlocked, and returns whether it has locked it.
func (m Mutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

// LockContext locks the mutex. If ctx ends first, it returns the cause of ctx. If ctx has ended before the call,
// LockContext may lock or fail.
func (m Mutex) LockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock unlocks the mutex.
func (m Mutex) Unlock() { <-m }

// Sleep waits for d. If ctx ends first, it returns the cause of ctx.
func Sleep(ctx context.Context, c clock.WithTicker, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
