package codec

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
)

const (
	textSlots  = 1024 // even, and a power of two
	maxNameLen = 64
	// maxValueLen leaves out what is nearly always another one: uids, and the names of generated objects.
	maxValueLen = 24
	// textChance is how many strings that are not in a full table there are for each one that gets in.
	textChance = 16
)

// textTables keep what the objects of a collection have in common.
type textTables struct {
	names  textTable // of fields
	values textTable // short strings, such as kinds, phases and images' pull policies
}

// textTable keeps one copy of strings that come again and again, so that decoding does
// not allocate them anew each time. It is bounded: a string has two slots, and where both are taken it replaces
// one by chance. So what is in every object stays, though labels and names pass by,
// and goroutines that decode at the same time mostly read. Safe for
// concurrent use; the zero value is empty.
type textTable struct {
	slots [textSlots]atomic.Pointer[text]
}

// text is a string, and the same as an interface, which would be an allocation too.
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

// find returns what there is of b or, if it is to be kept from now on, the slot for it.
func (t *textTable) find(b []byte) (*text, *atomic.Pointer[text]) {
	at := hashText(b) % textSlots
	first, second := &t.slots[at], &t.slots[at^1]
	a := first.Load()
	if a == nil {
		return nil, first
	}
	if a.s == string(b) {
		return a, nil
	}
	z := second.Load()
	if z == nil {
		return nil, second
	}
	if z.s == string(b) {
		return z, nil
	}
	switch rand.Uint32() % (2 * textChance) {
	case 0:
		return nil, first
	case 1:
		return nil, second
	}
	return nil, nil
}

// hashText takes eight bytes at a time; that of the runtime is as fast, but needs a seed.
func hashText(b []byte) uint64 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(b)) * prime
	for len(b) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(b)) * prime
		h ^= h >> 32
		b = b[8:]
	}
	var tail uint64
	for i, c := range b {
		tail |= uint64(c) << (8 * i)
	}
	h = (h ^ tail) * prime
	return h >> 40
}
