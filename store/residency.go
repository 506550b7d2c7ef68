package store

import "context"

// Residency says which objects of a collection are kept decoded in memory. The file always has all objects.
type Residency uint8

// The residencies. Use All for fast reads, as in a controller that looks up objects in every reconciliation. Use None
// to save memory: in an agent on a small node, in a mirror, and in a program whose handlers receive most of the objects
// that it needs. docs/benchmarks.md compares the reads of both with those in client-go.
const (
	// All, the default, keeps every object in memory, as client-go does: reads are as fast, and share objects. After a
	// start the objects are read from the file in the background. Until that is done, reads decode.
	All Residency = iota
	// None decodes an object whenever it is read, which takes tens of microseconds. A look-up in an index decodes every
	// object that it returns. Memory does not grow with the number of objects.
	None
)

// String returns "All" or "None".
func (r Residency) String() string {
	if r == None {
		return "None"
	}
	return "All"
}

// WaitResident waits until the objects of a collection with the Residency All are in memory, or ctx ends. It fails if
// an object cannot be read: then reads decode from the file, until a list has replaced the unreadable objects. If a
// record is damaged it waits for that list. With another Residency it returns at once.
func (c *Collection) WaitResident(ctx context.Context) error { return c.core.WaitResident(ctx) }
