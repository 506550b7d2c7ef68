package serve

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DefaultMemory is the budget of a Memory whose size nobody has chosen, in bytes.
const DefaultMemory = 256 << 20

// memoryWait is how long a request waits for memory before it is refused.
const memoryWait = time.Second

// Memory is the budget from which the answers of a process take the memory that they hold while a client reads: pages
// of lists, objects, documents. NewMemory returns one. A request takes its share before it reads anything, and is
// refused with 429 and Retry-After if there is none within a second. One user holds at most half of the budget, so that
// others are answered beside any number of slow readers of one. It is safe for concurrent use.
type Memory struct {
	size int64
	all  *semaphore.Weighted

	mu    sync.Mutex
	users map[string]*share // of users that hold memory or wait for it; guarded by mu, like the following
	usage MemoryUsage
}

// MemoryUsage is how much of a budget is in use.
type MemoryUsage struct {
	// Size is the budget, and Used how much of it requests hold, both in bytes.
	Size, Used int64
	// Refused is how many requests were refused since there was no memory for them.
	Refused int64
}

// share is the part of a budget that one user may hold.
type share struct {
	budget   *semaphore.Weighted
	requests int // that hold memory or wait for it; guarded by Memory.mu
}

// NewMemory returns a budget of so many bytes; 0 is DefaultMemory.
func NewMemory(size int64) *Memory {
	if size <= 0 {
		size = DefaultMemory
	}
	return &Memory{
		size: size, all: semaphore.NewWeighted(size), users: map[string]*share{}, usage: MemoryUsage{Size: size},
	}
}

// Usage returns how much is in use now.
func (m *Memory) Usage() MemoryUsage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

// errMemory is the refusal of a request for which there is no memory.
func errMemory() error {
	return apierrors.NewTooManyRequests("the memory for answers is spent by clients that read slowly (--serve-memory); "+
		"try again", 1)
}

// memoryLease is what one request holds of a Memory. Its goroutine owns it.
type memoryLease struct {
	memory *Memory
	user   string // empty if nobody is told apart
	share  *share // nil while nothing is held
	bytes  int64
}

// resize takes or gives back memory until the lease holds so many bytes, or half of the budget if that is less. To grow
// it first gives back what it has: requests that grow do not wait for one another. It fails with errMemory if there is
// none within a time, and then holds nothing.
func (l *memoryLease) resize(ctx context.Context, bytes int64, wait time.Duration) error {
	m := l.memory
	bytes = min(bytes, m.size/2)
	if l.share != nil && bytes <= l.bytes {
		l.free(l.bytes - bytes)
		return nil
	}
	l.release()
	s := m.join(l.user)
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	err := s.budget.Acquire(waiting, bytes)
	if err == nil {
		if err = m.all.Acquire(waiting, bytes); err != nil {
			s.budget.Release(bytes)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.leaveLocked(l.user, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.usage.Refused++
		return errMemory()
	}
	l.share, l.bytes = s, bytes
	m.usage.Used += bytes
	return nil
}

// free gives back a part.
func (l *memoryLease) free(bytes int64) {
	l.memory.all.Release(bytes)
	l.share.budget.Release(bytes)
	l.bytes -= bytes
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	l.memory.usage.Used -= bytes
}

// release gives back all memory.
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

// join returns the share of a user, for one more request.
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
