// Package history keeps the latest changes of one collection in memory, in the order of their resourceVersions, as an
// API server's watch cache does. Each event has the object before and after the change, as bytes.
//
// A store's collection fills a Window as it applies batches (CollectionOptions.History). A reader has a Position in it:
//
//	at, err := w.Find("4711", false) // watch from this resourceVersion
//	for {
//		changed := w.Changed()
//		events, next, _, err := w.After(at, 100)
//		… send the events; at = next; without events wait for changed
//	}
//
// Undo returns the old states of objects that changed after a Position. With them a list can be read in many short
// transactions and still be one state.
//
// A list, and a batch that does not continue the earlier events, begin a new timeline: all earlier Positions are
// ErrExpired. If objects have changed and the resourceVersion has not advanced, the resourceVersion is ErrExpired until
// it advances, because a reader may have seen an earlier state with it.
//
// A payload that two events share counts twice towards the bound of a Window. Events and their entries are shared and
// must not be modified. A Window is safe for concurrent use. No method waits for readers.
package history
