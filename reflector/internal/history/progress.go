package history

import "github.com/larder-dev/larder/entry"

// Progress is how far a stream has been delivered. It never goes back.
type Progress struct {
	// RV is the resourceVersion from which a watch resumes. If it is not comparable, it is that of the last list,
	// unchanged.
	RV string
}

// Below reports whether a is lower than b. Both must be comparable.
func Below(a, b string) bool { return entry.NewerRV(b, a) }

// Max returns the higher resourceVersion, or b if a is not comparable.
func Max(a, b string) string {
	if !entry.ComparableRV(a) || Below(a, b) {
		return b
	}
	return a
}

// Reached reports whether everything up to rv has been delivered.
func (c *Progress) Reached(rv string) bool { return entry.ComparableRV(c.RV) && !Below(c.RV, rv) }

// Advance moves on to the resourceVersion of an event or bookmark, if that is higher. It returns the new RV for the
// sink, or "" if the two cannot be compared.
func (c *Progress) Advance(rv string) string {
	if !entry.ComparableRV(c.RV) || !entry.ComparableRV(rv) {
		return ""
	}
	c.RV = Max(c.RV, rv)
	return c.RV
}
