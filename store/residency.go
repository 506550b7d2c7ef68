package store

import "fmt"

// Residency says which objects of a collection are kept decoded in memory. All of them are in the file whatever it is.
type Residency struct {
	kind  residencyKind
	bytes int64
}

type residencyKind uint8

const (
	residentAll residencyKind = iota
	residentBounded
	residentNone
)

// The residencies; for the third see Bounded.
var (
	// All keeps every object in memory, as client-go does: reads are as fast, and share objects. After a start they are
	// read from the file in the background, and reads decode until that is done. The zero Residency is All.
	All = Residency{}
	// None decodes an object whenever it is read. Memory does not grow with the number of objects.
	None = Residency{kind: residentNone}
)

// Bounded keeps the objects that are read most, one by one, in memory, up to about so many bytes, and decodes the
// others when they are read. How many bytes a decoded object takes is estimated from its encoded size.
func Bounded(bytes int64) Residency { return Residency{kind: residentBounded, bytes: bytes} }

// String returns "All", "None" or "Bounded(n)".
func (r Residency) String() string {
	switch r.kind {
	case residentNone:
		return "None"
	case residentBounded:
		return fmt.Sprintf("Bounded(%d)", r.bytes)
	}
	return "All"
}

// validate returns an error if a bound is none.
func (r Residency) validate() error {
	if r.kind == residentBounded && r.bytes <= 0 {
		return fmt.Errorf("the residency %s keeps nothing; give it a number of bytes, or take None", r)
	}
	return nil
}
