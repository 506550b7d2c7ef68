// Package diff compares two sources of collections, such as snapshots and stores. It reports objects that only one
// source has, and differences between the others as merge patches.
//
//	report, err := diff.Compare(ctx, monday, tuesday, diff.Options{}, func(c diff.Change) error {
//		fmt.Println(c.Kind, c.Collection.Identity, c.Key, string(c.Patch))
//		return nil
//	})
//
// It reads both sources once, in key order, and holds about one block of each in memory. Objects with equal payloads
// are not decoded. It writes nothing, and starts no goroutine that outlives the call. The caller decides whether a
// patch may be shown: see [snapshot.Collection.Confidential].
package diff
