package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

// cacheEntries is the maximum number of cached answers for each kind of review. They take about 10 MB.
const cacheEntries = 8192

// cacheKey identifies a question to the API server: an HMAC of the question with a secret of the process. So no token
// is kept in memory, and no client can search for collisions.
type cacheKey [sha256.Size]byte

// reviewCache caches the API server's answers to reviews. Equal questions that are asked at the same time are sent
// once. Errors are not cached.
type reviewCache[V any] struct {
	secret  [32]byte
	entries *utilcache.LRUExpireCache

	mu sync.Mutex
	// calls are the questions that are being asked. mu guards calls.
	calls map[cacheKey]*call[V]
}

type call[V any] struct {
	// done is closed when the answer is in value and err.
	done  chan struct{}
	value V
	err   error
}

func newReviewCache[V any]() *reviewCache[V] {
	c := &reviewCache[V]{entries: utilcache.NewLRUExpireCache(cacheEntries), calls: map[cacheKey]*call[V]{}}
	_, _ = rand.Read(c.secret[:]) // rand.Read never fails
	return c
}

func (c *reviewCache[V]) key(parts ...string) (k cacheKey) {
	h := hmac.New(sha256.New, c.secret[:])
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	h.Sum(k[:0])
	return k
}

func (c *reviewCache[V]) kept(k cacheKey) (v V, ok bool) {
	if kept, ok := c.entries.Get(k); ok {
		return kept.(V), true
	}
	return v, false
}

func (c *reviewCache[V]) keep(k cacheKey, v V, lasts time.Duration) { c.entries.Add(k, v, lasts) }

// get returns the cached answer to a question, or calls fetch, which asks and also returns how long the answer is
// valid. Of several concurrent callers with the same question, the first runs fetch. The context of fetch outlives that
// caller's, since the other callers wait for the same answer.
func (c *reviewCache[V]) get(
	ctx context.Context, k cacheKey, fetch func(context.Context) (V, time.Duration, error),
) (V, error) {
	if v, ok := c.kept(k); ok {
		return v, nil
	}
	c.mu.Lock()
	if call := c.calls[k]; call != nil {
		c.mu.Unlock()
		return call.wait(ctx)
	}
	if v, ok := c.kept(k); ok { // an earlier call for the same question has just ended
		c.mu.Unlock()
		return v, nil
	}
	first := &call[V]{done: make(chan struct{}), err: context.Canceled} // the error stays canceled if fetch panics
	c.calls[k] = first
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, k)
		c.mu.Unlock()
		close(first.done)
	}()
	var lasts time.Duration
	if first.value, lasts, first.err = fetch(context.WithoutCancel(ctx)); first.err == nil {
		c.keep(k, first.value, lasts)
	}
	return first.value, first.err
}

func (c *call[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}
