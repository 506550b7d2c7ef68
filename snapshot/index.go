package snapshot

import "encoding/binary"

// blockHead is the head of a block.
type blockHead struct {
	collection  uint64
	count       uint64
	first, last string
}

func (h blockHead) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, h.collection)
	dst = binary.AppendUvarint(dst, h.count)
	return appendSized(appendSized(dst, h.first), h.last)
}

func parseBlockHead(data []byte) (h blockHead, ok bool) {
	if h.collection, data, ok = cutNumber(data); !ok {
		return h, false
	}
	if h.count, data, ok = cutNumber(data); !ok {
		return h, false
	}
	first, data, ok := cutSized(data)
	if !ok {
		return h, false
	}
	last, data, ok := cutSized(data)
	h.first, h.last = string(first), string(last)
	return h, ok && len(data) == 0
}

// indexEntry is a block in an index page.
type indexEntry struct {
	first, last string
	offset      uint64
	length      uint64 // of the whole frame
	count       uint64
	digest      [digestSize]byte
}

func (e indexEntry) append(dst []byte) []byte {
	dst = appendSized(appendSized(dst, e.first), e.last)
	dst = binary.AppendUvarint(dst, e.offset)
	dst = binary.AppendUvarint(dst, e.length)
	dst = binary.AppendUvarint(dst, e.count)
	return append(dst, e.digest[:]...)
}

func cutEntry(data []byte) (e indexEntry, rest []byte, ok bool) {
	first, data, ok := cutSized(data)
	if !ok {
		return e, nil, false
	}
	last, data, ok := cutSized(data)
	if !ok {
		return e, nil, false
	}
	e.first, e.last = string(first), string(last)
	for _, v := range []*uint64{&e.offset, &e.length, &e.count} {
		if *v, data, ok = cutNumber(data); !ok {
			return e, nil, false
		}
	}
	if len(data) < digestSize {
		return e, nil, false
	}
	e.digest = [digestSize]byte(data)
	return e, data[digestSize:], true
}

// parsePage reads an index page.
func parsePage(data []byte) (entries []indexEntry, ok bool) {
	for len(data) > 0 {
		var e indexEntry
		if e, data, ok = cutEntry(data); !ok {
			return nil, false
		}
		entries = append(entries, e)
	}
	return entries, true
}

// span is where a frame is.
type span struct{ offset, length uint64 }

func (s span) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, s.offset), s.length)
}

func (s span) end() uint64 { return s.offset + s.length }

// cutSpan takes a span off data that lies behind after and before limit.
func cutSpan(data []byte, after *uint64, limit uint64) (s span, rest []byte, ok bool) {
	if s.offset, data, ok = cutNumber(data); !ok {
		return s, nil, false
	}
	if s.length, data, ok = cutNumber(data); !ok {
		return s, nil, false
	}
	if s.offset < *after || s.length < frameMin || s.length > maxFrame || s.offset > limit || s.length > limit-s.offset {
		return s, nil, false
	}
	*after = s.end()
	return s, data, true
}

// maxFrame bounds a whole frame.
const maxFrame = fixedSize + maxHead + maxBody + digestSize

// pageRef is an index page in the tail.
type pageRef struct {
	span
	first string // the first key of its first block
}

// collectionRef is a collection in the tail: where its index and its description are.
type collectionRef struct {
	pages []pageRef
	end   span
}

// append appends the number of pages, for each its first key and span, and the span of the frame E.
func (r collectionRef) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.pages)))
	for _, p := range r.pages {
		dst = p.span.append(appendSized(dst, p.first))
	}
	return r.end.append(dst)
}

// parseTail reads the body of the tail: the span of the frame M, then every collection. All spans are ahead of limit
// and in ascending order, which bounds how many there can be by the size of the file.
func parseTail(data []byte, limit uint64) (manifest span, refs []collectionRef, ok bool) {
	var after uint64
	if manifest, data, ok = cutSpan(data, &after, limit); !ok {
		return manifest, nil, false
	}
	for len(data) > 0 {
		var r collectionRef
		if r, data, ok = cutCollectionRef(data, &after, limit); !ok {
			return manifest, nil, false
		}
		refs = append(refs, r)
	}
	return manifest, refs, true
}

func cutCollectionRef(data []byte, after *uint64, limit uint64) (r collectionRef, rest []byte, ok bool) {
	n, data, ok := cutNumber(data)
	if !ok {
		return r, nil, false
	}
	for range n {
		var p pageRef
		var first []byte
		if first, data, ok = cutSized(data); !ok {
			return r, nil, false
		}
		p.first = string(first)
		if p.span, data, ok = cutSpan(data, after, limit); !ok {
			return r, nil, false
		}
		r.pages = append(r.pages, p)
	}
	if r.end, data, ok = cutSpan(data, after, limit); !ok {
		return r, nil, false
	}
	return r, data, true
}
