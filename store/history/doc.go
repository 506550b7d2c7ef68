// Package history keeps the latest changes of one collection in memory, in the order of their resourceVersions, with
// the object before and after each as bytes: what an API server's watch cache keeps of its history.
//
// A store's collection fills a Window as it applies batches (CollectionOptions.History). A reader is a Position in it:
//
//	at, err := w.Find("4711")         // watch from this resourceVersion
//	for {
//		changed := w.Changed()
//		events, next, err := w.After(at, 100)
//		… tell them; at = next; if there were none, wait for changed
//	}
//
// Undo tells what a page that was read now lacks to be the state at an earlier Position, so a list can be read in many
// short transactions and still be one state.
//
// # What is promised
//
//   - Events come in the order in which the server made them; their resourceVersions ascend.
//   - A Window holds at most its bound of bytes (keys and payloads; one that an event shares with the event before
//     counts twice). The oldest events leave first. A Position that they have left behind is ErrExpired.
//   - A list that the store applies, and a batch that does not continue what there is, begin a new timeline: every
//     Position of before is ErrExpired. If objects have changed and the resourceVersion has not advanced, it is
//     ErrExpired itself until it does, since one state that was told under it lacks the change.
//   - When the collection is closed its Window ends: every Position and every resourceVersion is ErrExpired.
//   - Events and their entries are shared and must not be modified.
//
// A Window is safe for concurrent use. No reader is waited for.
package history
