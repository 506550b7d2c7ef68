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
	// dictionaryBytes is how long it is. Twice that packs 3 % better (docs/adr/0007).
	dictionaryBytes = 64 << 10
	// sampleBytes is how much there must be to choose from.
	sampleBytes = 256 << 10
	// sampleParts is the least number of objects that a dictionary has parts of.
	sampleParts = 8
)

// Packer compresses what is written to a collection. A nil one leaves everything as it is.
type Packer struct {
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

// NewPacker returns one that has seen nothing.
func NewPacker() *Packer {
	return &Packer{DictBytes: dictionaryBytes, SampleBytes: sampleBytes, seed: maphash.MakeSeed()}
}

// Use makes d the dictionary of new records; nil makes it another one that is still to be made.
func (p *Packer) Use(d *Dictionary) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.useLocked(d)
}

func (p *Packer) useLocked(d *Dictionary) { p.current, p.gathered, p.bytes, p.known = d, nil, 0, nil }

// Seal is for a collection that is sealed: of a dictionary that was made for plain text no more use is made.
func (p *Packer) Seal() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sealed = true; p.current != nil && p.current.IsHashed() {
		p.useLocked(nil)
	}
}

// IsSealed reports whether Seal was called.
func (p *Packer) IsSealed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sealed
}

// Using returns the dictionary of new records, or nil.
func (p *Packer) Using() *Dictionary {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// Pack compresses payloads: what it returns has nil in the place of those that would not get shorter by it, or for
// which there is no dictionary yet.
func (p *Packer) Pack(payloads [][]byte) (packed [][]byte, dict *Dictionary) {
	packed = make([][]byte, len(payloads))
	if p != nil {
		dict = p.dictionaryFor(payloads)
	}
	if dict == nil {
		return packed, nil
	}
	share := max(packAlone, (len(payloads)+packers()-1)/packers())
	var wg sync.WaitGroup
	for from := 0; from < len(payloads); from += share {
		to := min(from+share, len(payloads))
		some := func() {
			for i := from; i < to; i++ {
				packed[i] = dict.pack(payloads[i])
			}
		}
		if to == len(payloads) {
			some()
		} else {
			wg.Go(some)
		}
	}
	wg.Wait()
	return packed, dict
}

// packAlone is how many payloads one goroutine compresses at least.
const packAlone = 64

// packers is how many goroutines compress at a time: each needs 0.8 MB, which stays with the collection.
func packers() int { return min(2, runtime.GOMAXPROCS(0)) }

// dictionaryFor returns the dictionary of new records. If there is none it is made of the payloads and of what there
// was before, if that is enough.
func (p *Packer) dictionaryFor(payloads [][]byte) *Dictionary {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return p.current
	}
	fresh := make([][]byte, 0, len(payloads))
	size := p.bytes
	for _, payload := range payloads {
		if len(payload) > 0 && !p.isKnownLocked(payload) {
			fresh = append(fresh, payload)
			size += min(len(payload), p.part())
		}
	}
	if size >= p.SampleBytes {
		p.useLocked(p.make(append(p.gathered, fresh...), p.sealed))
		return p.current
	}
	if p.known == nil {
		p.known = map[uint64]struct{}{}
	}
	for _, payload := range fresh {
		p.known[maphash.Bytes(p.seed, payload)] = struct{}{}
		p.gathered = append(p.gathered, bytes.Clone(payload[:min(len(payload), p.part())]))
	}
	p.bytes = size
	return nil
}

func (p *Packer) isKnownLocked(payload []byte) bool {
	_, known := p.known[maphash.Bytes(p.seed, payload)]
	return known
}

// part is how much of one payload gets into a dictionary.
func (p *Packer) part() int { return p.DictBytes / sampleParts }

// make returns a dictionary of some of the payloads, from the first to the last: objects that follow each other are
// alike.
func (p *Packer) make(payloads [][]byte, sealed bool) *Dictionary {
	content := make([]byte, 0, p.DictBytes)
	for _, i := range spread(len(payloads), p.parts(payloads), 0) {
		part := payloads[i]
		part = part[:min(len(part), p.part(), p.DictBytes-len(content))]
		content = append(content, part...)
	}
	if sealed {
		return WithID(format.RandomID(), content)
	}
	return New(content)
}

// parts is how many of the payloads fill a dictionary.
func (p *Packer) parts(payloads [][]byte) int {
	size := 0
	for _, payload := range payloads {
		size += min(len(payload), p.part())
	}
	fill := int64(len(payloads))*int64(p.DictBytes)/int64(max(1, size)) + 1
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

// Revise makes a new dictionary of the payloads if it packs others of them better, by a quarter, than the one in use.
func (p *Packer) Revise(payloads [][]byte) {
	if p == nil {
		return
	}
	size := 0
	for _, payload := range payloads {
		size += min(len(payload), p.part())
	}
	k := p.parts(payloads)
	if size < p.SampleBytes || len(payloads) < 2*k {
		return
	}
	old, next := p.Using(), p.make(payloads, p.IsSealed())
	if old != nil {
		before, after := 0, 0
		for _, i := range spread(len(payloads), k, 1) {
			before += old.packedSize(payloads[i])
			after += next.packedSize(payloads[i])
		}
		if 4*before < 5*after {
			return
		}
	}
	p.Use(next)
}

// packedSize is how many bytes the payload would take.
func (d *Dictionary) packedSize(payload []byte) int {
	if packed := d.pack(payload); packed != nil {
		return len(packed)
	}
	return len(payload)
}

// Keeps reports whether a payload that is stored as the header says would be stored so today.
func (p *Packer) Keeps(h format.Header, payload []byte) bool {
	dict := p.Using()
	switch {
	case p == nil:
		return h.Dictionary == 0
	case dict == nil:
		return true
	case h.Dictionary == 0:
		return dict.pack(payload) == nil
	}
	return h.Dictionary == dict.ID
}
