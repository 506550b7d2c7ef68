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
	// textChance: a new string whose two slots are taken replaces one of the two strings in them with probability
	// 1/textChance.
	textChance = 16
)

// hashSeed is the hash seed of all tables of strings.
var hashSeed = maphash.MakeSeed()

// textTables keeps strings that many objects of a collection share.
type textTables struct {
	names  textTable // names of fields
	values textTable // short strings, such as kinds, phases and images' pull policies
}

// textTable keeps one copy of frequent strings, so that decoding does not allocate them each time. It is bounded: a
// string has two slots, and if both are taken it replaces one by chance. So strings of every object stay in the table
// despite rare ones, and concurrent decoders mostly read. It is safe for concurrent use; the zero value is empty.
type textTable struct {
	slots [textSlots]atomic.Pointer[text]
}

// text is a string, and the same string in an interface, which would otherwise cost another allocation.
type text struct {
	s     string
	boxed any
}

// name returns b as a string.
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

// value returns b as a string in an interface.
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

// find returns the text of b if the table has it, or a slot for it, or neither.
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
