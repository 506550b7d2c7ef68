// Package seed is the contract between an informer without stored state and a source of earlier contents: a snapshot
// (snapshot.Seed), or a source of the program's own.
//
// An informer with informer.Options.Seed asks its Source in place of the first list. It applies the contents like a
// list, and resumes the watch from their resourceVersion, under the same guards as after a restart. So the API server
// sends only the changes since, and no list. If the server has compacted its history since then, the informer asks once
// for a newer Seed, and then lists by metadata and fetches only the objects that differ.
//
// # Promises of a Source
//
//   - A Seed has exactly the objects that the Request covers, as the server sent them, in their state at
//     Seed.ResourceVersion. They are from the Request's cluster.
//   - A Source verifies the contents before Seed.Objects begins, as far as it can.
//   - Its errors give the reason why there is no seed. Then the informer lists, and shows the error
//     (informer.Status.Seed).
package seed
