package fleet

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// processor shares its cores among the jobs that it has, as a kernel does among threads: no job gets more than one
// core, and all get the same.
//
// Time is kept per job: virtual is how much a job would have had that has been there from the beginning, so each ends
// when that reaches a value that is known when it comes.
type processor struct {
	cores float64

	mu      sync.Mutex // guards what follows
	jobs    []*job     // in the order in which they end
	virtual float64    // seconds
	used    float64    // seconds of all cores
	at      time.Time  // when virtual and used were that
	timer   *time.Timer
}

// job is one request's work.
type job struct {
	end  float64
	done chan struct{}
}

func newProcessor(cores int) *processor {
	return &processor{cores: float64(cores), at: time.Now()}
}

// work takes so much of the processor, and returns when it has had it, or with the error of ctx.
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

// usage is how many seconds of all cores have been used so far.
func (p *processor) usage() (seconds float64) {
	p.update(func() { seconds = p.used })
	return seconds
}

// update accounts for the time that has passed, ends the jobs that have had theirs, calls do, and sets the timer to the
// end of the first job.
func (p *processor) update(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	passed := now.Sub(p.at).Seconds()
	p.at = now
	p.virtual += passed * p.rateLocked()
	p.used += passed * min(float64(len(p.jobs)), p.cores)
	// What is less than a microsecond is the rounding of the timer.
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

// rateLocked is how much of a core each job gets.
func (p *processor) rateLocked() float64 { return min(1, p.cores/float64(max(len(p.jobs), 1))) }
