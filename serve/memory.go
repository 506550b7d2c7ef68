package serve

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DefaultMemory is the default size of the memory budget, in bytes.
const DefaultMemory = 256 << 20

// memoryWait is how long a request waits for memory of the budget before it is rejected with 429.
const memoryWait = time.Second

// Memory is the memory budget for the responses of a process: pages of lists, objects and documents that are held while
// a client reads. NewMemory returns one.
//
// A request acquires memory before it reads objects. It acquires more memory before it renders large objects: the
// memory for decoding one object (codec.Weight), or for the largest object of a page, whose objects wait for one
// another. If no memory becomes free within a second (three for a page), the request is rejected with 429 and
// Retry-After.
//
// One user holds at most half of the budget, so that slow readers of one user do not block other users. A list that has
// begun is not cut off when a page needs more memory. Instead one list of each user may exceed the budget by one page,
// and the user's other lists wait. A Memory is safe for concurrent use.
type Memory struct {
	size int64
	all  *semaphore.Weighted

	mu sync.Mutex
	// users has the users that hold memory or wait for memory. mu guards users, usage and freed.
	users map[string]*share
	usage MemoryUsage
	// freed is closed when memory is released; nil while no request waits.
	freed chan struct{}
}

// MemoryUsage is the usage of a memory budget.
type MemoryUsage struct {
	// Size is the budget, and Used the memory in use, in bytes. Used can exceed Size by a page of a list per user.
	Size, Used int64
	// Refused counts the requests that were rejected for lack of memory.
	Refused int64
}

type share struct {
	budget *semaphore.Weighted
	// requests counts the requests that hold memory or wait for memory. Memory.mu guards requests and exceeded.
	requests int
	// exceeded is true if a list of the user holds more than the budget allows.
	exceeded bool
}

// NewMemory returns a budget of size bytes; 0 means DefaultMemory.
func NewMemory(size int64) *Memory {
	if size <= 0 {
		size = DefaultMemory
	}
	return &Memory{
		size: size, all: semaphore.NewWeighted(size), users: map[string]*share{}, usage: MemoryUsage{Size: size},
	}
}

// Usage returns the current usage of the budget.
func (m *Memory) Usage() MemoryUsage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

func errMemory() error {
	return apierrors.NewTooManyRequests("the memory for answers is spent by clients that read slowly (--serve-memory); "+
		"try again", 1)
}

// memoryLease is the memory of the budget that one request holds. The request's goroutine owns the lease.
type memoryLease struct {
	memory *Memory
	user   string
	share  *share
	bytes  int64
	// beyond is the part of bytes by which the lease exceeds the budget.
	beyond int64
	// begun is true once part of the response is written, so that a rejection would cut the response off.
	begun bool
}

// resize acquires or releases memory until the lease holds the given number of bytes, or half of the budget if that is
// less. If memory does not become free within wait, it fails with errMemory and leaves the lease unchanged. The lease
// of a response that has begun waits until ctx ends.
func (l *memoryLease) resize(ctx context.Context, bytes int64, wait time.Duration) error {
	bytes = min(bytes, l.memory.size/2)
	switch more := bytes - l.bytes; {
	case more <= 0:
		l.free(-more)
		return nil
	case l.begun && l.share != nil:
		return l.growBegun(ctx, more)
	default:
		return l.take(ctx, more, wait)
	}
}

func (l *memoryLease) take(ctx context.Context, more int64, wait time.Duration) error {
	m, s := l.memory, l.share
	if s == nil {
		s = m.join(l.user)
	}
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	err := s.budget.Acquire(waiting, more)
	if err == nil {
		if err = m.all.Acquire(waiting, more); err != nil {
			s.budget.Release(more)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		if l.share == nil {
			m.leaveLocked(l.user, s)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.usage.Refused++
		return errMemory()
	}
	l.share, l.bytes = s, l.bytes+more
	m.usage.Used += more
	return nil
}

// growBegun acquires more bytes for a response that has begun. The lease may exceed the budget if no other lease of the
// user does. Otherwise growBegun waits until ctx ends.
func (l *memoryLease) growBegun(ctx context.Context, more int64) error {
	for {
		freed, ok := l.tryGrowBegun(more)
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryGrowBegun is growBegun without the wait. If it fails, freed is closed when memory is released.
func (l *memoryLease) tryGrowBegun(more int64) (freed <-chan struct{}, ok bool) {
	m, s := l.memory, l.share
	m.mu.Lock()
	defer m.mu.Unlock()
	ok = s.budget.TryAcquire(more)
	if ok && !m.all.TryAcquire(more) {
		s.budget.Release(more)
		ok = false
	}
	if !ok && (l.beyond > 0 || !s.exceeded) {
		s.exceeded, ok = true, true
		l.beyond += more
	}
	if !ok {
		if m.freed == nil {
			m.freed = make(chan struct{})
		}
		return m.freed, false
	}
	l.bytes += more
	m.usage.Used += more
	return nil, true
}

// free releases bytes of a lease, beginning with those beyond the budget.
func (l *memoryLease) free(bytes int64) {
	if bytes == 0 {
		return
	}
	m := l.memory
	beyond := min(bytes, l.beyond)
	m.all.Release(bytes - beyond)
	l.share.budget.Release(bytes - beyond)
	l.bytes -= bytes
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage.Used -= bytes
	if l.beyond -= beyond; beyond > 0 && l.beyond == 0 {
		l.share.exceeded = false
	}
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

func (l *memoryLease) release() {
	if l.share == nil {
		return
	}
	l.free(l.bytes)
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	l.memory.leaveLocked(l.user, l.share)
	l.share = nil
}

func (m *Memory) join(user string) *share {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.users[user]
	if s == nil {
		size := m.size / 2
		if user == "" {
			size = m.size
		}
		s = &share{budget: semaphore.NewWeighted(size)}
		m.users[user] = s
	}
	s.requests++
	return s
}

func (m *Memory) leaveLocked(user string, s *share) {
	if s.requests--; s.requests == 0 {
		delete(m.users, user)
	}
}
