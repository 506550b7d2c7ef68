package store

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
)

// bounded is the objects of a collection whose Residency is Bounded that are decoded: those that are read most.
//
// What a read has decoded is put in only if nothing has been written to its stripe of keys since before it looked: else it
// may be old. A batch of several keys closes the cache while it comes here, with the overlay locked: a read must not find a
// part of it.
type bounded struct {
	cache   *otter.Cache[string, cached]
	closed  atomic.Int32 // batches of several keys that come here
	seed    maphash.Seed
	stripes [256]stripe
}

type stripe struct {
	mu sync.Mutex
	// writes are counted with mu held, and read by everybody.
	writes atomic.Uint64
}

type cached struct {
	obj     runtime.Object
	uid, rv string
	weight  uint32
}

// A decoded object takes about so many times its payload (facts: a pod of 2.7 KB in protobuf takes 8 KB, one of 3.5 KB in
// msgpack 28 KB), and a fixed amount with its place in the cache.
const (
	weightTyped        = 3
	weightUnstructured = 8
	weightFixed        = 512
)

func newBounded(bytes int64) (*bounded, error) {
	cache, err := otter.New(&otter.Options[string, cached]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ string, c cached) uint32 { return c.weight },
		Executor:      func(fn func()) { fn() }, // no goroutines that nobody waits for
	})
	return &bounded{cache: cache, seed: maphash.MakeSeed()}, err
}

func (b *bounded) stripe(key string) *stripe {
	return &b.stripes[maphash.String(b.seed, key)%uint64(len(b.stripes))]
}

// get returns the object of key, if it is here. It is no older than what is pending: writes come here first.
func (b *bounded) get(key string) runtime.Object {
	if b.closed.Load() > 0 {
		return nil
	}
	c, _ := b.cache.GetIfPresent(key)
	return c.obj
}

// seen is what put wants to know, from before the read.
func (b *bounded) seen(key string) uint64 { return b.stripe(key).writes.Load() }

// state returns the object of key if it is here in that state. While a list is written it may have another body in the file.
func (b *bounded) state(key, uid, rv string) runtime.Object {
	if b.closed.Load() > 0 {
		return nil
	}
	if c, ok := b.cache.GetEntryQuietly(key); ok && rv != "" && c.Value.uid == uid && c.Value.rv == rv {
		return c.Value.obj
	}
	return nil
}

// put keeps what a read has decoded, unless the key may have been written since.
func (b *bounded) put(key string, c cached, seen uint64) {
	s := b.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes.Load() == seen && b.closed.Load() == 0 {
		b.cache.Set(key, c)
	}
}

// apply takes in writes; those to keys that are not here stay out, but for a read.
func (b *bounded) apply(last []*write, codec codec.Codec) {
	for _, x := range last {
		s := b.stripe(x.key)
		s.mu.Lock()
		s.writes.Add(1)
		if _, here := b.cache.GetEntryQuietly(x.key); here {
			b.cache.Invalidate(x.key)
			if !x.del {
				b.cache.Set(x.key, cached{obj: x.obj, uid: x.uid, rv: x.rv, weight: weigh(codec, x.key, x.payloadSize)})
			}
		}
		s.mu.Unlock()
	}
}

// clear forgets everything.
func (b *bounded) clear() {
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		s.writes.Add(1)
		s.mu.Unlock()
	}
	b.cache.InvalidateAll()
}

// weigh estimates what a decoded object takes.
func weigh(c codec.Codec, key string, payload int) uint32 {
	factor := weightTyped
	if c.Name() != codec.EncodingProtobuf {
		factor = weightUnstructured
	}
	return uint32(min(uint64(weightFixed+len(key))+uint64(factor)*uint64(payload), 1<<31))
}
