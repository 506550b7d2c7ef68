package compress

import (
	"bytes"
	"hash/maphash"
	"runtime"
	"sync"

	"github.com/larder-dev/larder/store/internal/format"
)

// What a dictionary is made of.
const (
	// dictionaryBytes is how long it is. Twice that compresses 3 % better (docs/adr/0007).
	dictionaryBytes = 64 << 10
	// sampleBytes is how much there must be to choose from.
	sampleBytes = 256 << 10
	// sampleParts is the least number of objects that a dictionary has parts of.
	sampleParts = 8
)

// Compressor compresses what is written to a collection. A nil one leaves everything as it is.
type Compressor struct {
	DictBytes, SampleBytes int
	seed                   maphash.Seed

	mu sync.Mutex
	// sealed: a dictionary has a random id. A hash would tell whether a guess of its content is right. Guarded by mu.
	sealed   bool
	current  *Dictionary // for new records; nil until there is enough to make one of; guarded by mu
	gathered [][]byte    // payloads that were to be stored without; guarded by mu
	bytes    int         // of gathered; guarded by mu
	// known are hashes of what has been gathered: a write that fails comes again. Guarded by mu.
	known map[uint64]struct{}
}

// NewCompressor returns one that has seen nothing.
func NewCompressor() *Compressor {
	return &Compressor{DictBytes: dictionaryBytes, SampleBytes: sampleBytes, seed: maphash.MakeSeed()}
}

// Use makes d the dictionary of new records; nil makes it another one that is still to be made.
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

// Seal is for a collection that is sealed: of a dictionary that was made for plain text no more use is made.
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

// Resume makes d, a stored dictionary, the dictionary of new records, unless d was made for plain text and the
// collection is sealed.
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

// Compress compresses payloads: what it returns has nil in the place of those that would not get shorter by it, or for
// which there is no dictionary yet.
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

// leastShare is how many payloads one goroutine compresses at least.
const leastShare = 64

// encoders is how many goroutines compress at a time: each needs 0.8 MB, which stays with the collection.
func encoders() int { return min(2, runtime.GOMAXPROCS(0)) }

// dictionaryFor returns the dictionary of new records. If there is none it is made of the payloads and of what there
// was before, if that is enough.
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

// part is how much of one payload gets into a dictionary.
func (c *Compressor) part() int { return c.DictBytes / sampleParts }

// make returns a dictionary of some of the payloads, from the first to the last: objects that follow each other are
// alike.
func (c *Compressor) make(payloads [][]byte, sealed bool) *Dictionary {
	content := make([]byte, 0, c.DictBytes)
	for _, i := range spread(len(payloads), c.parts(payloads), 0) {
		part := payloads[i]
		part = part[:min(len(part), c.part(), c.DictBytes-len(content))]
		content = append(content, part...)
	}
	if sealed {
		return WithID(format.RandomID(), content)
	}
	return New(content)
}

// parts is how many of the payloads fill a dictionary.
func (c *Compressor) parts(payloads [][]byte) int {
	size := 0
	for _, payload := range payloads {
		size += min(len(payload), c.part())
	}
	fill := int64(len(payloads))*int64(c.DictBytes)/int64(max(1, size)) + 1
	return int(min(int64(len(payloads)), fill))
}

// spread returns k indexes below n at equal distances; halves of a distance to begin with are 0 or 1.
func spread(n, k, halves int) []int {
	at := make([]int, k)
	for i := range at {
		at[i] = int(int64(2*i+halves) * int64(n) / int64(2*k))
	}
	return at
}

// Revise makes a new dictionary of the payloads if it compresses others of them better than the one in
// use, by a quarter.
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

// compressedSize is how many bytes the payload would take.
func (d *Dictionary) compressedSize(payload []byte) int {
	if compressed := d.compress(payload); compressed != nil {
		return len(compressed)
	}
	return len(payload)
}

// Keeps reports whether a payload that is stored as the header says would be stored so today.
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
