package crypt

import (
	"bytes"
	"hash/maphash"
	"runtime"
	"sync"

	"github.com/larder-dev/larder/store/internal/format"
)

const (
	// dictionaryBytes is the size of a dictionary. Twice that size compresses 3 % better (docs/adr/0007).
	dictionaryBytes = 64 << 10
	// sampleBytes is the number of payload bytes that are needed to make a dictionary.
	sampleBytes = 256 << 10
	// sampleParts is the minimum number of objects whose payloads have a part in a full dictionary.
	sampleParts = 8
)

// Compressor compresses the payloads that are written to a collection. A nil Compressor compresses nothing.
type Compressor struct {
	DictBytes, SampleBytes int
	seed                   maphash.Seed

	mu sync.Mutex
	// sealed is true for an encrypted collection, whose new dictionaries get random ids: an id that is a hash could
	// confirm a guess of the content. mu guards sealed.
	sealed   bool
	current  *Dictionary // current is the dictionary for new records, or nil; guarded by mu.
	gathered [][]byte    // gathered has the payloads for the first dictionary; guarded by mu.
	bytes    int         // bytes is the size of the gathered payloads; guarded by mu.
	// known holds hashes of the gathered payloads: after a failed commit, the same payloads arrive again. mu guards known.
	known map[uint64]struct{}
}

// NewCompressor returns a Compressor without a dictionary.
func NewCompressor() *Compressor {
	return &Compressor{DictBytes: dictionaryBytes, SampleBytes: sampleBytes, seed: maphash.MakeSeed()}
}

// Use sets the dictionary for new records. With nil, later payloads make a new dictionary.
func (c *Compressor) Use(d *Dictionary) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.useLocked(d)
}

func (c *Compressor) useLocked(d *Dictionary) {
	c.current, c.gathered, c.bytes, c.known = d, nil, 0, nil
}

// Seal makes c a Compressor of a sealed collection: it stops using a dictionary that was made for unsealed records.
func (c *Compressor) Seal() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed = true; c.current != nil && c.current.IsHashed() {
		c.useLocked(nil)
	}
}

// Resume sets the dictionary for new records to d, unless the collection is sealed and d is from unsealed records.
func (c *Compressor) Resume(d *Dictionary) {
	if !(c.IsSealed() && d.IsHashed()) {
		c.Use(d)
	}
}

// IsSealed reports whether Seal was called.
func (c *Compressor) IsSealed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sealed
}

// Using returns the dictionary of new records, or nil.
func (c *Compressor) Using() *Dictionary {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Compress returns the compressed payloads and the dictionary that compressed them. An element is nil if compression
// would not make the payload shorter. All elements are nil if there is no dictionary yet.
func (c *Compressor) Compress(payloads [][]byte) (compressed [][]byte, dict *Dictionary) {
	compressed = make([][]byte, len(payloads))
	if c != nil {
		dict = c.dictionaryFor(payloads)
	}
	if dict == nil {
		return compressed, nil
	}
	share := max(leastShare, (len(payloads)+encoders()-1)/encoders())
	var wg sync.WaitGroup
	for from := 0; from < len(payloads); from += share {
		to := min(from+share, len(payloads))
		some := func() {
			for i := from; i < to; i++ {
				compressed[i] = dict.compress(payloads[i])
			}
		}
		if to == len(payloads) {
			some()
		} else {
			wg.Go(some)
		}
	}
	wg.Wait()
	return compressed, dict
}

// leastShare is the minimum number of payloads that one goroutine compresses, except the last goroutine.
const leastShare = 64

// encoders returns the number of goroutines that compress at a time. Each needs 0.8 MB, which the dictionary keeps.
func encoders() int { return min(2, runtime.GOMAXPROCS(0)) }

// dictionaryFor returns the dictionary for new records. Without one, it gathers payloads, and makes a dictionary once
// they are large enough. It returns nil before.
func (c *Compressor) dictionaryFor(payloads [][]byte) *Dictionary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return c.current
	}
	fresh := make([][]byte, 0, len(payloads))
	size := c.bytes
	for _, payload := range payloads {
		if len(payload) > 0 && !c.isKnownLocked(payload) {
			fresh = append(fresh, payload)
			size += min(len(payload), c.part())
		}
	}
	if size >= c.SampleBytes {
		c.useLocked(c.make(append(c.gathered, fresh...), c.sealed))
		return c.current
	}
	if c.known == nil {
		c.known = map[uint64]struct{}{}
	}
	for _, payload := range fresh {
		c.known[maphash.Bytes(c.seed, payload)] = struct{}{}
		c.gathered = append(c.gathered, bytes.Clone(payload[:min(len(payload), c.part())]))
	}
	c.bytes = size
	return nil
}

func (c *Compressor) isKnownLocked(payload []byte) bool {
	_, known := c.known[maphash.Bytes(c.seed, payload)]
	return known
}

// part returns the maximum number of bytes of one payload in a dictionary.
func (c *Compressor) part() int { return c.DictBytes / sampleParts }

// make returns a dictionary of evenly spaced payloads, because neighboring objects are alike.
func (c *Compressor) make(payloads [][]byte, sealed bool) *Dictionary {
	content := make([]byte, 0, c.DictBytes)
	for _, i := range spread(len(payloads), c.parts(payloads), 0) {
		part := payloads[i]
		part = part[:min(len(part), c.part(), c.DictBytes-len(content))]
		content = append(content, part...)
	}
	if sealed {
		return NewDictionaryWithID(format.RandomID(), content)
	}
	return NewDictionary(content)
}

// parts returns how many of the payloads fill a dictionary, if at most part bytes of each are used.
func (c *Compressor) parts(payloads [][]byte) int {
	size := 0
	for _, payload := range payloads {
		size += min(len(payload), c.part())
	}
	fill := int64(len(payloads))*int64(c.DictBytes)/int64(max(1, size)) + 1
	return int(min(int64(len(payloads)), fill))
}

// spread returns k evenly spaced indexes below n. The first is 0, or half a distance if halves is 1.
func spread(n, k, halves int) []int {
	at := make([]int, k)
	for i := range at {
		at[i] = int(int64(2*i+halves) * int64(n) / int64(2*k))
	}
	return at
}

// Revise makes a new dictionary from some of the payloads, and compresses others with it. It uses the new dictionary if
// the current one makes them larger by at least a quarter, or if there is none. It does nothing if the payloads are too
// few.
func (c *Compressor) Revise(payloads [][]byte) {
	if c == nil {
		return
	}
	size := 0
	for _, payload := range payloads {
		size += min(len(payload), c.part())
	}
	k := c.parts(payloads)
	if size < c.SampleBytes || len(payloads) < 2*k {
		return
	}
	old, next := c.Using(), c.make(payloads, c.IsSealed())
	if old != nil {
		before, after := 0, 0
		for _, i := range spread(len(payloads), k, 1) {
			before += old.compressedSize(payloads[i])
			after += next.compressedSize(payloads[i])
		}
		if 4*before < 5*after {
			return
		}
	}
	c.Use(next)
}

func (d *Dictionary) compressedSize(payload []byte) int {
	if compressed := d.compress(payload); compressed != nil {
		return len(compressed)
	}
	return len(payload)
}

// Keeps reports whether a rewrite would store the payload in its current form, according to the header.
func (c *Compressor) Keeps(h format.Header, payload []byte) bool {
	dict := c.Using()
	switch {
	case c == nil:
		return h.Dictionary == 0
	case dict == nil:
		return true
	case h.Dictionary == 0:
		return dict.compress(payload) == nil
	}
	return h.Dictionary == dict.ID
}
