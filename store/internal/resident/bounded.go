package resident

import (
	"cmp"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Bounded is the objects of a collection whose Residency is Bounded that are decoded: those that are read most.
//
// What a read has decoded is put in only if nothing has been written to its stripe of keys since before it looked: else
// it may be old. A batch of several keys closes the cache while it comes here, with the memtable locked: a read must
// not find a part of it.
type Bounded struct {
	cache   *otter.Cache[string, Cached]
	closed  atomic.Int32 // batches of several keys that come here
	seed    maphash.Seed
	stripes [256]stripe
}

type stripe struct {
	mu sync.Mutex
	// writes are counted with mu held, and read by everybody.
	writes atomic.Uint64
}

// Cached is an object, in which state it is, and about how many bytes it takes.
type Cached struct {
	Obj     runtime.Object
	UID, RV string
	Weight  uint32
}

// A decoded object takes about so many times its payload, by its Go type and the payload's encoding (facts: a pod of
// 2.7 KB in protobuf and 4.2 KB in JSON takes 8 KB, and as an unstructured object, of 3.5 KB in msgpack, 28 KB), and a
// fixed amount with its place in the cache.
const (
	weightTypedProtobuf        = 3
	weightTypedJSON            = 2
	weightUnstructuredProtobuf = 10
	weightUnstructuredMsgpack  = 8
	weightFixed                = 512
)

// NewBounded returns a cache of so many bytes.
func NewBounded(bytes int64) (*Bounded, error) {
	cache, err := otter.New(&otter.Options[string, Cached]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ string, c Cached) uint32 { return c.Weight },
		Executor:      func(fn func()) { fn() }, // no goroutines that nobody waits for
	})
	return &Bounded{cache: cache, seed: maphash.MakeSeed()}, err
}

func (b *Bounded) stripe(key string) *stripe {
	return &b.stripes[maphash.String(b.seed, key)%uint64(len(b.stripes))]
}

// Get returns the object of key; zero if it is not here. It is no older than the memtable: writes come here first.
func (b *Bounded) Get(key string) Cached {
	if b.closed.Load() > 0 {
		return Cached{}
	}
	c, _ := b.cache.GetIfPresent(key)
	return c
}

// Seen is what put wants to know, from before the read.
func (b *Bounded) Seen(key string) uint64 { return b.stripe(key).writes.Load() }

// State returns the object of key if it is here in that state. While a list is written it may have another body in the
// file.
func (b *Bounded) State(key, uid, rv string) runtime.Object {
	if b.closed.Load() > 0 {
		return nil
	}
	if c, ok := b.cache.GetEntryQuietly(key); ok && rv != "" && c.Value.UID == uid && c.Value.RV == rv {
		return c.Value.Obj
	}
	return nil
}

// Put keeps what a read has decoded, unless the key may have been written since.
func (b *Bounded) Put(key string, c Cached, seen uint64) {
	s := b.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes.Load() == seen && b.closed.Load() == 0 {
		b.cache.Set(key, c)
	}
}

// Apply applies the last write of each key, which the codec has encoded. If there are several, the cache is closed
// meanwhile: reads go to the memtable or the file. It does nothing if b is nil.
func (b *Bounded) Apply(last []*memtable.Write, codec codec.Codec) {
	if b == nil {
		return
	}
	if len(last) > 1 {
		defer b.close()()
	}
	for _, x := range last {
		now := Cached{}
		if !x.Del {
			obj := known(x.Obj)
			now = Cached{Obj: obj, UID: x.UID, RV: x.RV,
				Weight: Weigh(obj, cmp.Or(x.Encoding, codec.Name()), x.Key, x.PayloadSize)}
		}
		b.write(x.Key, now)
	}
}

// known returns obj, or what it was decoded to; nil if it was not.
func known(obj runtime.Object) runtime.Object {
	if u, ok := obj.(*entry.Undecoded); ok {
		return u.Known()
	}
	return obj
}

// write takes in a write: of an object, or of none where it is deleted. One to a key that is not here stays out, but
// for a read.
func (b *Bounded) write(key string, c Cached) {
	s := b.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes.Add(1)
	if _, here := b.cache.GetEntryQuietly(key); here {
		b.cache.Invalidate(key)
		if c.Obj != nil {
			b.cache.Set(key, c)
		}
	}
}

// close keeps reads from the cache until open is called.
func (b *Bounded) close() (open func()) {
	b.closed.Add(1)
	return func() { b.closed.Add(-1) }
}

// Clear forgets everything.
func (b *Bounded) Clear() {
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		s.writes.Add(1)
		s.mu.Unlock()
	}
	b.cache.InvalidateAll()
}

// Weigh estimates what a decoded object takes, from the length of its payload in that encoding.
func Weigh(obj runtime.Object, encoding, key string, payload int) uint32 {
	_, isUnstructured := obj.(runtime.Unstructured)
	inProtobuf := encoding == codec.EncodingProtobuf
	factor := weightTypedJSON
	switch {
	case isUnstructured && inProtobuf:
		factor = weightUnstructuredProtobuf
	case isUnstructured:
		factor = weightUnstructuredMsgpack
	case inProtobuf:
		factor = weightTypedProtobuf
	}
	return uint32(min(uint64(weightFixed+len(key))+uint64(factor)*uint64(payload), 1<<31))
}
