package reflector

import "k8s.io/apimachinery/pkg/util/resourceversion"

// cursor is how far a stream has been delivered. It never goes back.
type cursor struct {
	// rv is where a watch would go on. If it is not comparable, it is what the
	// last list said, word for word.
	rv string
}

// comparable reports whether rv is one that CompareResourceVersion accepts.
func comparableRV(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}

// below compares two comparable resourceVersions.
func below(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// maxRV returns the larger one; one that is not comparable loses.
func maxRV(a, b string) string {
	if !comparableRV(a) || below(a, b) {
		return b
	}
	return a
}

// reached reports whether everything up to rv has been delivered.
func (c *cursor) reached(rv string) bool { return comparableRV(c.rv) && !below(c.rv, rv) }

// advance moves on to the resourceVersion of an event or bookmark, and returns what to
// tell the sink: where the stream stands, or "" if the two can not be compared.
func (c *cursor) advance(rv string) string {
	if !comparableRV(c.rv) || !comparableRV(rv) {
		return ""
	}
	c.rv = maxRV(c.rv, rv)
	return c.rv
}
