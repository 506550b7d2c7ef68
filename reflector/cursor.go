package reflector

import "github.com/larder-dev/larder/entry"

// cursor is how far a stream has been delivered. It never goes back.
type cursor struct {
	// rv is where a watch would go on. If it is not comparable, it is what the
	// last list said, word for word.
	rv string
}

// below compares two comparable resourceVersions.
func below(a, b string) bool { return entry.NewerRV(b, a) }

// maxRV returns the larger one; one that is not comparable loses.
func maxRV(a, b string) string {
	if !entry.ComparableRV(a) || below(a, b) {
		return b
	}
	return a
}

// reached reports whether everything up to rv has been delivered.
func (c *cursor) reached(rv string) bool { return entry.ComparableRV(c.rv) && !below(c.rv, rv) }

// advance moves on to the resourceVersion of an event or bookmark, and returns what to
// tell the sink: where the stream stands, or "" if the two cannot be compared.
func (c *cursor) advance(rv string) string {
	if !entry.ComparableRV(c.rv) || !entry.ComparableRV(rv) {
		return ""
	}
	c.rv = maxRV(c.rv, rv)
	return c.rv
}
