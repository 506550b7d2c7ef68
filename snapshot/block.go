package snapshot

import (
	"fmt"

	"github.com/larder-dev/larder/entry"
)

// blockReader goes through the records of a block that was verified.
type blockReader struct {
	head   blockHead
	format format
	rest   []byte
	bytes  int64 // of the payloads
}

// parseBlock verifies what is in a block: its records are as many as its head says, from the first key to the last, in
// order and behind the key after.
func parseBlock(f frame, format format, after string) (b blockReader, wrong string) {
	head, ok := parseBlockHead(f.head)
	if !ok {
		return b, "its head cannot be read"
	}
	b = blockReader{head: head, format: format, rest: f.body}
	rest, last := f.body, after
	var n uint64
	for len(rest) > 0 {
		r, more, ok := format.cutRecord(rest)
		if !ok {
			return b, "a record in it cannot be read"
		}
		if r.Key <= last || n == 0 && r.Key != head.first {
			return b, "its keys are not in order"
		}
		if len(r.Key) > maxKey {
			return b, fmt.Sprintf("a key of %d bytes is longer than the %d that are allowed", len(r.Key), maxKey)
		}
		if n := longestMark(r); n > maxMark {
			return b, fmt.Sprintf("a UID, resourceVersion or encoding of %d bytes is longer than the %d that are allowed", n,
				maxMark)
		}
		rest, last = more, r.Key
		b.bytes += int64(len(r.Payload))
		n++
	}
	if n == 0 || n != head.count || last != head.last {
		return b, "its records are not those that its head names"
	}
	return b, ""
}

// next returns the next record. Its payload is part of the block.
func (b *blockReader) next() (entry.Entry, bool) {
	if len(b.rest) == 0 {
		return entry.Entry{}, false
	}
	r, rest, ok := b.format.cutRecord(b.rest)
	if !ok { // parseBlock has been over it
		b.rest = nil
		return entry.Entry{}, false
	}
	b.rest = rest
	return r, true
}
