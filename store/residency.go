package store

// Residency says which objects of a collection are kept decoded in memory. The file always has all objects.
type Residency uint8

// The residencies. Take All where reads decide: a controller that looks objects up in every reconciliation. Take None
// where memory decides: an agent on a small node, a mirror, and any program that mostly gets its objects from handlers.
// docs/benchmarks.md has the reads of both beside those of client-go.
const (
	// All keeps every object in memory, as client-go does: reads are as fast, and share objects. After a start the
	// objects are read from the file in the background; until that is done reads decode. The zero Residency is All.
	All Residency = iota
	// None decodes an object whenever it is read, tens of microseconds each, so a look-up in an index decodes every
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
