package fleet

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// processor shares its cores among jobs, as a kernel does among threads: a job gets one core at most, and all jobs get
// the same share.
//
// virtual is the processor time of a job that exists from the beginning. A job ends when virtual reaches a value that
// is fixed at the job's start.
type processor struct {
	cores float64

	mu      sync.Mutex // mu guards the fields below
	jobs    []*job     // ordered by the time of their ends
	virtual float64    // processor time of a job that exists from the beginning, in seconds
	used    float64    // total processor time, in seconds of all cores
	at      time.Time  // time of the last update of virtual and used
	timer   *time.Timer
}

type job struct {
	end  float64
	done chan struct{}
}

func newProcessor(cores int) *processor {
	return &processor{cores: float64(cores), at: time.Now()}
}

// work waits until the caller has received this much processor time, or returns the error of ctx.
func (p *processor) work(ctx context.Context, cpu time.Duration) error {
	j := &job{done: make(chan struct{})}
	p.update(func() {
		j.end = p.virtual + cpu.Seconds()
		at, _ := slices.BinarySearchFunc(p.jobs, j, func(a, b *job) int { return cmp.Compare(a.end, b.end) })
		p.jobs = slices.Insert(p.jobs, at, j)
	})
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		p.update(func() { p.jobs = slices.DeleteFunc(p.jobs, func(other *job) bool { return other == j }) })
		return context.Cause(ctx)
	}
}

func (p *processor) usage() (seconds float64) {
	p.update(func() { seconds = p.used })
	return seconds
}

// update credits the jobs with the time since the last update, ends finished jobs, calls do, and sets the timer to the
// end of the next job.
func (p *processor) update(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	passed := now.Sub(p.at).Seconds()
	p.at = now
	p.virtual += passed * p.rateLocked()
	p.used += passed * min(float64(len(p.jobs)), p.cores)
	// A job with less than a microsecond left is finished: the rest is a rounding error of the timer.
	for len(p.jobs) > 0 && p.jobs[0].end <= p.virtual+1e-6 {
		close(p.jobs[0].done)
		p.jobs = p.jobs[1:]
	}
	do()
	if p.timer != nil {
		p.timer.Stop()
	}
	if len(p.jobs) > 0 {
		left := max(p.jobs[0].end-p.virtual, 0) / p.rateLocked()
		p.timer = time.AfterFunc(time.Duration(left*float64(time.Second)), func() { p.update(func() {}) })
	}
}

func (p *processor) rateLocked() float64 { return min(1, p.cores/float64(max(len(p.jobs), 1))) }
