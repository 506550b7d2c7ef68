package history

import "github.com/larder-dev/larder/entry"

// Progress is how far a stream has been delivered. It never goes back.
type Progress struct {
	// rv is where a watch would go on. If it is not comparable, it is what the
	// last list said, word for word.
	RV string
}

// Below compares two comparable resourceVersions.
func Below(a, b string) bool { return entry.NewerRV(b, a) }

// Max returns the larger one; one that is not comparable loses.
func Max(a, b string) string {
	if !entry.ComparableRV(a) || Below(a, b) {
		return b
	}
	return a
}

// Reached reports whether everything up to rv has been delivered.
func (c *Progress) Reached(rv string) bool { return entry.ComparableRV(c.RV) && !Below(c.RV, rv) }

// Advance moves on to the resourceVersion of an event or bookmark, and returns what to
// tell the sink: where the stream stands, or "" if the two cannot be compared.
func (c *Progress) Advance(rv string) string {
	if !entry.ComparableRV(c.RV) || !entry.ComparableRV(rv) {
		return ""
	}
	c.RV = Max(c.RV, rv)
	return c.RV
}
