package codec

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
)

const (
	textSlots  = 1024 // slots of a table; a power of two
	maxNameLen = 64
	// maxValueLen excludes values that differ in nearly every object: UIDs, and the names of generated objects.
	maxValueLen = 24
	// A new string whose two slots are taken replaces one of their strings with probability 1/textChance.
	textChance = 16
)

var hashSeed = maphash.MakeSeed()

// textTables caches strings that many objects of a collection share.
type textTables struct {
	names  textTable // names of object fields
	values textTable // short strings, such as kinds, phases and images' pull policies
}

// textTable is a bounded cache of frequent strings, so that decoding does not allocate them each time. A string has two
// possible slots. If both are taken, a new string rarely replaces one of their strings, so frequent strings stay.
// Concurrent decoders mostly read. textTable is safe for concurrent use; the zero value is empty.
type textTable struct {
	slots [textSlots]atomic.Pointer[text]
}

// text holds a string also in an interface, because converting it each time would allocate.
type text struct {
	s     string
	boxed any
}

func (t *textTable) name(b []byte) string {
	if len(b) > maxNameLen {
		return string(b)
	}
	found, slot := t.find(b)
	if found != nil {
		return found.s
	}
	s := string(b)
	if slot != nil {
		slot.Store(&text{s: s, boxed: s})
	}
	return s
}

func (t *textTable) value(b []byte) any {
	if len(b) > maxValueLen {
		return string(b)
	}
	found, slot := t.find(b)
	if found != nil {
		return found.boxed
	}
	s := string(b)
	var boxed any = s
	if slot != nil {
		slot.Store(&text{s: s, boxed: boxed})
	}
	return boxed
}

// find returns the cached text of b, or a slot that a new text may take, or two nils.
func (t *textTable) find(b []byte) (*text, *atomic.Pointer[text]) {
	at := maphash.Bytes(hashSeed, b) % textSlots
	slots := [2]*atomic.Pointer[text]{&t.slots[at], &t.slots[at^1]}
	for _, slot := range slots {
		found := slot.Load()
		if found == nil {
			return nil, slot
		}
		if found.s == string(b) {
			return found, nil
		}
	}
	if n := rand.Uint32() % (2 * textChance); n < 2 {
		return nil, slots[n]
	}
	return nil, nil
}
