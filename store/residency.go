package store

import "fmt"

// Residency says which objects of a collection are kept decoded in memory. The file always has all objects.
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

// The residencies All and None; Bounded returns the third.
var (
	// All keeps every object in memory, as client-go does: reads are as fast, and share objects. After a start the
	// objects are read from the file in the background; until that is done reads decode. The zero Residency is All.
	All = Residency{}
	// None decodes an object whenever it is read. Memory does not grow with the number of objects.
	None = Residency{kind: residentNone}
)

// Bounded keeps the objects that are read most by key in memory, up to about the given number of bytes. Other objects
// are decoded whenever they are read. The size of a decoded object is estimated from its encoded size.
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

// validate returns an error if Bounded has a number of bytes that is not positive.
func (r Residency) validate() error {
	if r.kind == residentBounded && r.bytes <= 0 {
		return fmt.Errorf("the residency %s keeps nothing; give it a number of bytes, or take None", r)
	}
	return nil
}
