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
// of lists, objects, documents. NewMemory returns one. A request takes a share before it reads anything, and more
// before it renders objects for which that is too little: as much as decoding them may take (codec.Weight), or the
// largest of a page, since those are decoded one after the other. It is refused with 429 and Retry-After if there is no
// memory within a second, or three for a page. One user holds at most half of the budget, so that
// others are answered beside any number of slow readers of one. A list that has begun is not broken off where a page
// needs more: one list of each user may exceed the budget by one page, and the user's other lists wait. It is safe for
// concurrent use.
type Memory struct {
	size int64
	all  *semaphore.Weighted

	mu    sync.Mutex
	users map[string]*share // of users that hold memory or wait for it; guarded by mu, like the following
	usage MemoryUsage
	freed chan struct{} // closed when memory is given back; nil if nobody waits for it
}

// MemoryUsage is how much of a budget is in use.
type MemoryUsage struct {
	// Size is the budget, and Used how much memory requests hold, both in bytes. Used can exceed Size by a page of a list.
	Size, Used int64
	// Refused is how many requests were refused since there was no memory for them.
	Refused int64
}

// share is the part of a budget that one user may hold.
type share struct {
	budget   *semaphore.Weighted
	requests int  // that hold memory or wait for it; guarded by Memory.mu, like the following
	exceeded bool // a lease of the user holds memory beyond the budget
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

// memoryLease is the part of a Memory that one request holds. Its goroutine owns it.
type memoryLease struct {
	memory *Memory
	user   string // empty if nobody is told apart
	share  *share // nil while nothing is held
	bytes  int64
	beyond int64 // the part of bytes that exceeds the budget
	begun  bool  // the answer has begun: a refusal would cut it off
}

// resize takes or gives back memory until the lease holds so many bytes, or half of the budget if that is less. To grow
// it keeps its bytes and takes the difference. It fails with errMemory if there is none within a time; the lease is
// unchanged then. The lease of an answer that has begun waits until ctx ends.
func (l *memoryLease) resize(ctx context.Context, bytes int64, wait time.Duration) error {
	bytes = min(bytes, l.memory.size/2)
	switch more := bytes - l.bytes; {
	case more <= 0:
		l.free(-more)
		return nil
	case l.begun && l.share != nil:
		return l.goOn(ctx, more)
	default:
		return l.take(ctx, more, wait)
	}
}

// take takes more bytes within a time.
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

// goOn takes more bytes for an answer that has begun: from the budget, or beyond it if no other lease of the user is
// beyond it. Otherwise it waits.
func (l *memoryLease) goOn(ctx context.Context, more int64) error {
	for {
		freed, ok := l.tryGoOn(more)
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

// tryGoOn takes more bytes, or returns a channel that is closed when memory is given back.
func (l *memoryLease) tryGoOn(more int64) (freed <-chan struct{}, ok bool) {
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

// free gives back a part, first of what exceeds the budget.
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
