package history

import "github.com/larder-dev/larder/entry"

// Progress is the resourceVersion up to which a stream of events has been delivered. It never decreases. The zero value
// is a stream that has no list yet.
type Progress struct {
	RV string
	// comparable is false if the resourceVersion of the list, or of a later event, could not be compared. Then RV is
	// the resourceVersion of the list or of the last event. A watch of this run can resume from RV, even though its
	// order is unknown.
	comparable bool
}

func At(rv string) Progress { return Progress{RV: rv, comparable: entry.ComparableRV(rv)} }

func (c *Progress) Comparable() bool { return c.comparable }

// Below reports whether resourceVersion a is lower than b. Both arguments must be comparable.
func Below(a, b string) bool { return entry.NewerRV(b, a) }

// Max returns the higher resourceVersion, or b if a is not comparable.
func Max(a, b string) string {
	if !entry.ComparableRV(a) || Below(a, b) {
		return b
	}
	return a
}

func (c *Progress) Reached(rv string) bool { return c.comparable && !Below(c.RV, rv) }

// Advance sets RV to the resourceVersion of an event or bookmark, if that is higher or cannot be compared. It returns
// the new RV for the Sink, or "" if the Sink must not store it.
//
// After one event whose resourceVersion cannot be compared, none counts as comparable. Otherwise each reconnect would
// replay everything since the list. A watch from "" or "0" begins with the objects in no order, so their
// resourceVersions do not resume a watch. "0" stands for any state, so it counts as no resourceVersion: kine sends
// bookmarks with it (k3s-io/kine#568).
func (c *Progress) Advance(rv string) string {
	if rv == "0" {
		rv = ""
	}
	if rv != "" && !entry.ComparableRV(rv) && c.RV != "0" {
		c.comparable = false
	}
	switch {
	case c.comparable && entry.ComparableRV(rv):
		c.RV = Max(c.RV, rv)
		return c.RV
	case !c.comparable && rv != "" && c.RV != "" && c.RV != "0":
		c.RV = rv
	}
	return ""
}
