// Package seed is the contract between an informer that has nothing yet and the contents that somebody else has kept: a
// snapshot (snapshot.Seed), or a source of the program's own.
//
// An informer with informer.Options.Seed asks its Source where it would list for the first time. It applies what it
// gets as it applies a list, and resumes the watch from there, under the same guards as after a restart. So the API
// server is asked for what has changed since, and for no list. If the server has compacted its history since then, the
// informer asks once for a newer Seed, and then lists by metadata, which fetches only what differs.
//
// # What a Source promises
//
//   - The objects of a Seed are all that the Request names, and only they, each as the server sent it, as they were at
//     Seed.ResourceVersion. They are of the cluster that the Request names.
//   - It verifies what it read before Seed.Objects begins, as far as it has the means.
//   - Its errors say why there is no seed. The informer lists then, and shows the error (informer.Status.Seed).
package seed
