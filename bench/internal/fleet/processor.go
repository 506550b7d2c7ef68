package fleet

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// processor shares its cores among the jobs that it has, as a kernel does among threads: no job gets more than one core, and all get the same.
//
// Time is kept per job: virtual is how much a job would have had that has been there from the beginning, so each ends when that reaches a
// value that is known when it comes.
type processor struct {
	cores float64

	mu      sync.Mutex
	jobs    jobs      // guarded by mu
	virtual float64   // guarded by mu; seconds
	at      time.Time // guarded by mu; when virtual was that
	used    float64   // guarded by mu; seconds of all cores
	timer   *time.Timer
}

// job is one request's work.
type job struct {
	end  float64
	done chan struct{}
	at   int // its index in the heap; -1 when it is not there
}

func newProcessor(cores int) *processor {
	return &processor{cores: float64(cores), at: time.Now()}
}

// work takes so much of the processor, and returns when it has had it, or with the error of ctx.
func (p *processor) work(ctx context.Context, cpu time.Duration) error {
	j := p.begin(cpu)
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		p.giveUp(j)
		return context.Cause(ctx)
	}
}

func (p *processor) begin(cpu time.Duration) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	j := &job{end: p.virtual + cpu.Seconds(), done: make(chan struct{})}
	heap.Push(&p.jobs, j)
	p.planLocked()
	return j
}

func (p *processor) giveUp(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	if j.at >= 0 {
		heap.Remove(&p.jobs, j.at)
	}
	p.planLocked()
}

// tick ends the jobs that have had their time.
func (p *processor) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	// What is less than a microsecond is the rounding of the timer.
	for len(p.jobs) > 0 && p.jobs[0].end <= p.virtual+1e-6 {
		close(heap.Pop(&p.jobs).(*job).done)
	}
	p.planLocked()
}

// usage is how many seconds of all cores have been used so far.
func (p *processor) usage() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	return p.used
}

// rateLocked is how much of a core each job gets.
func (p *processor) rateLocked() float64 { return min(1, p.cores/float64(max(len(p.jobs), 1))) }

func (p *processor) advanceLocked() {
	now := time.Now()
	passed := now.Sub(p.at).Seconds()
	p.at = now
	p.virtual += passed * p.rateLocked()
	p.used += passed * min(float64(len(p.jobs)), p.cores)
}

// planLocked sets the timer to the end of the first job.
func (p *processor) planLocked() {
	if p.timer != nil {
		p.timer.Stop()
	}
	if len(p.jobs) == 0 {
		return
	}
	left := max(p.jobs[0].end-p.virtual, 0) / p.rateLocked()
	p.timer = time.AfterFunc(time.Duration(left*float64(time.Second)), p.tick)
}

// jobs is a heap, the one that ends first on top.
type jobs []*job

func (h jobs) Len() int           { return len(h) }
func (h jobs) Less(i, j int) bool { return h[i].end < h[j].end }
func (h jobs) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *jobs) Push(x any) {
	j := x.(*job)
	j.at = len(*h)
	*h = append(*h, j)
}

// Pop implements heap.Interface.
func (h *jobs) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	j.at = -1
	return j
}
