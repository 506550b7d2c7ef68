package store

import "sync/atomic"

const (
	nameSlots  = 1024 // a power of two
	maxNameLen = 64
)

// nameTable keeps one copy of the field names that the objects of a
// collection have in common, so that decoding does not allocate them again
// and again. It is bounded: a name that falls into a taken slot replaces it.
// Safe for concurrent use; the zero value is empty.
type nameTable struct {
	slots [nameSlots]atomic.Pointer[string]
}

// get returns b as a string.
func (t *nameTable) get(b []byte) string {
	if len(b) > maxNameLen {
		return string(b)
	}
	hash := uint32(2166136261) // FNV-1a
	for _, c := range b {
		hash = (hash ^ uint32(c)) * 16777619
	}
	slot := &t.slots[(hash^hash>>16)%nameSlots]
	if s := slot.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	slot.Store(&s)
	return s
}
