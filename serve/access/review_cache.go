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

// cacheEntries bounds the answers that are kept of each kind of review, some 10 MB of them at most.
const cacheEntries = 8192

// cacheKey is a hash, keyed by a secret of the process, of what was asked: no token is kept, and nobody can search
// for questions that collide.
type cacheKey [sha256.Size]byte

// reviewCache keeps the API server's answers for a while, and has equal questions that come at the same time asked
// once. Errors are not kept.
type reviewCache[V any] struct {
	secret  [32]byte
	entries *utilcache.LRUExpireCache

	mu    sync.Mutex
	calls map[cacheKey]*call[V] // that are under way
}

// call is a question that is being asked.
type call[V any] struct {
	done  chan struct{} // closed once value and err are set
	value V
	err   error
}

func newReviewCache[V any]() *reviewCache[V] {
	c := &reviewCache[V]{entries: utilcache.NewLRUExpireCache(cacheEntries), calls: map[cacheKey]*call[V]{}}
	_, _ = rand.Read(c.secret[:]) // never fails
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

// kept returns the answer that is kept.
func (c *reviewCache[V]) kept(k cacheKey) (v V, ok bool) {
	if kept, ok := c.entries.Get(k); ok {
		return kept.(V), true
	}
	return v, false
}

// keep keeps an answer.
func (c *reviewCache[V]) keep(k cacheKey, v V, lasts time.Duration) { c.entries.Add(k, v, lasts) }

// get returns the answer that is kept, or that of fetch, which says how long it counts. The first who asks runs fetch,
// in a context that lasts when its own ends: others may be waiting for the same answer.
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
	if v, ok := c.kept(k); ok { // a call has ended meanwhile
		c.mu.Unlock()
		return v, nil
	}
	first := &call[V]{done: make(chan struct{}), err: context.Canceled} // err is replaced unless fetch panics
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
