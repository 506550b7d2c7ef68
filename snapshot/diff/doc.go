// Package diff compares two sources of collections, such as snapshots and stores: which objects one of them has alone,
// and what is different in the others, as a merge patch.
//
//	report, err := diff.Compare(ctx, monday, tuesday, diff.Options{}, func(c diff.Change) error {
//		fmt.Println(c.Kind, c.Collection.Identity, c.Key, string(c.Patch))
//		return nil
//	})
//
// It reads both once, in key order, and holds a block of each. Objects whose payloads are equal are not decoded. It
// writes nothing, starts no goroutine that outlives it, and asks nobody whether what it reads may be shown: that is
// snapshot.Collection.Confidential of Change.Collection.
package diff
