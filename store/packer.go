package store

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"runtime"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
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

// packer compresses what is written to a collection. A nil one leaves everything as it is.
type packer struct {
	dictBytes, sampleBytes int
	seed                   maphash.Seed

	mu sync.Mutex
	// sealed: a dictionary has a random id. A hash would tell whether a guess of its content is right. Guarded by mu.
	sealed   bool
	current  *dictionary // for new records; nil until there is enough to make one of; guarded by mu
	gathered [][]byte    // payloads that were to be stored without; guarded by mu
	bytes    int         // of gathered; guarded by mu
	// known are hashes of what has been gathered: a write that fails comes again. Guarded by mu.
	known map[uint64]struct{}
}

func newPacker(c Compression) *packer {
	if c == NoCompression {
		return nil
	}
	return &packer{dictBytes: dictionaryBytes, sampleBytes: sampleBytes, seed: maphash.MakeSeed()}
}

// use makes d the dictionary of new records; nil makes it another one that is still to be made.
func (p *packer) use(d *dictionary) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.useLocked(d)
}

func (p *packer) useLocked(d *dictionary) { p.current, p.gathered, p.bytes, p.known = d, nil, 0, nil }

// seal is for a collection that is sealed: of a dictionary that was made for plain text no more use is made.
func (p *packer) seal() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sealed = true; p.current != nil && p.current.isHashed() {
		p.useLocked(nil)
	}
}

func (p *packer) isSealed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sealed
}

// using returns the dictionary of new records, or nil.
func (p *packer) using() *dictionary {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// pack compresses the payloads of the writes, those that get shorter by it. It calls no code of the user.
func (p *packer) pack(writes []*write) {
	if p == nil {
		return
	}
	dict := p.dictionaryFor(writes)
	if dict == nil {
		return
	}
	share := max(packAlone, (len(writes)+packers()-1)/packers())
	var wg sync.WaitGroup
	for len(writes) > share {
		some := writes[:share]
		wg.Go(func() { packSome(dict, some) })
		writes = writes[share:]
	}
	packSome(dict, writes)
	wg.Wait()
}

// packAlone is how many payloads one goroutine compresses at least.
const packAlone = 64

// packers is how many goroutines compress at a time: each needs 0.8 MB, which stays with the collection.
func packers() int { return min(2, runtime.GOMAXPROCS(0)) }

func packSome(dict *dictionary, writes []*write) {
	for _, x := range writes {
		if x.del || x.dict != nil {
			continue
		}
		if packed := dict.pack(x.payload); packed != nil {
			x.packed, x.dict = packed, dict
		}
	}
}

// dictionaryFor returns the dictionary of new records. If there is none it is made of the writes and of what there was before, if that is enough.
func (p *packer) dictionaryFor(writes []*write) *dictionary {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return p.current
	}
	fresh := make([][]byte, 0, len(writes))
	size := p.bytes
	for _, x := range writes {
		if !x.del && x.dict == nil && len(x.payload) > 0 && !p.isKnownLocked(x.payload) {
			fresh = append(fresh, x.payload)
			size += min(len(x.payload), p.part())
		}
	}
	if size >= p.sampleBytes {
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

func (p *packer) isKnownLocked(payload []byte) bool {
	_, known := p.known[maphash.Bytes(p.seed, payload)]
	return known
}

// part is how much of one payload gets into a dictionary.
func (p *packer) part() int { return p.dictBytes / sampleParts }

// make returns a dictionary of some of the payloads, from the first to the last: objects that follow each other are alike.
func (p *packer) make(payloads [][]byte, sealed bool) *dictionary {
	content := make([]byte, 0, p.dictBytes)
	for _, i := range spread(len(payloads), p.parts(payloads), 0) {
		part := payloads[i]
		part = part[:min(len(part), p.part(), p.dictBytes-len(content))]
		content = append(content, part...)
	}
	if sealed {
		return dictionaryOf(newKeyID(), content)
	}
	return newDictionary(content)
}

// parts is how many of the payloads fill a dictionary.
func (p *packer) parts(payloads [][]byte) int {
	size := 0
	for _, payload := range payloads {
		size += min(len(payload), p.part())
	}
	fill := int64(len(payloads))*int64(p.dictBytes)/int64(max(1, size)) + 1
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

// revise makes a new dictionary of the payloads if it packs others of them better, by a quarter, than the one in use.
func (p *packer) revise(payloads [][]byte) {
	if p == nil {
		return
	}
	size := 0
	for _, payload := range payloads {
		size += min(len(payload), p.part())
	}
	k := p.parts(payloads)
	if size < p.sampleBytes || len(payloads) < 2*k {
		return
	}
	old, next := p.using(), p.make(payloads, p.isSealed())
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
	p.use(next)
}

// packedSize is how many bytes the payload would take.
func (d *dictionary) packedSize(payload []byte) int {
	if packed := d.pack(payload); packed != nil {
		return len(packed)
	}
	return len(payload)
}

// keeps reports whether a payload that is stored as the header says would be stored so today.
func (p *packer) keeps(h format.Header, payload []byte) bool {
	dict := p.using()
	switch {
	case p == nil:
		return h.Dictionary == 0
	case dict == nil:
		return true
	case h.Dictionary == 0:
		return dict.pack(payload) == nil
	}
	return h.Dictionary == dict.id
}

// loadDictionary goes on with the dictionary that was in use last. If it is damaged the store has failed, as it does
// when a record is read that needs it, and a new one will be made.
func (c *Collection) loadDictionary(ctx context.Context) error {
	if c.packer == nil {
		return nil
	}
	err := c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, c.name)
		if err != nil || st.dictionary == 0 {
			return err
		}
		dict, err := c.dictionary(b.Tx(), st.dictionary)
		if err == nil && !(c.packer.isSealed() && dict.isHashed()) { // of one that is in plain text no more use is made
			c.packer.use(dict)
		}
		return err
	})
	if errors.Is(err, entry.ErrDamaged) {
		return nil
	}
	return err
}

// reviseDictionary looks at the first page of a list that rewrites: everything it has will be written with the dictionary.
func (r *replacement) reviseDictionary(items map[string]*item, keys []string) {
	if r.c.packer == nil || r.revised {
		return
	}
	r.revised = true
	payloads := make([][]byte, 0, len(keys))
	for _, key := range keys {
		if it := items[key]; it.err == nil {
			payloads = append(payloads, it.payload)
		}
	}
	r.c.packer.revise(payloads)
}

// dropDictionaries removes those that no record names any more.
func (c *Collection) dropDictionaries(b *bolt.Bucket, st *state) error {
	dicts, needed := b.Bucket(format.BucketDictionaries), map[uint64]bool{}
	if dicts == nil {
		return nil
	}
	if dict := c.packer.using(); dict != nil {
		needed[dict.id] = true
	}
	unused := func() (keys [][]byte, err error) {
		err = dicts.ForEach(func(k, _ []byte) error {
			if id, ok := format.ParseDictionaryKey(k); !ok || !needed[id] {
				keys = append(keys, bytes.Clone(k))
			}
			return nil
		})
		return keys, err
	}
	if keys, err := unused(); err != nil || len(keys) == 0 {
		return err
	}
	objects, err := c.objects(b)
	if err != nil {
		return err
	}
	err = objects.ForEach(func(k, data []byte) error {
		h, err := format.ParseHeader(c.name, string(k), data)
		needed[h.Dictionary] = true
		return err
	})
	if err != nil {
		return err
	}
	keys, err := unused()
	for _, k := range keys {
		if err == nil {
			err = dicts.Delete(k)
		}
	}
	if !needed[st.dictionary] {
		st.dictionary = 0
	}
	return err
}
