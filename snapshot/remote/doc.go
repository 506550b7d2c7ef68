// Package remote reads and keeps snapshots at URLs, for informers to begin with (informer.Options.Seed):
//
//	o.Seed = remote.Seed("https://cdn.example.com/production/", remote.Options{MaxAge: time.Hour})
//
// A URL is a path, file://, https:// or http://; packages s3 and oci add theirs to Options.Schemes, and a program its
// own with a Files. One that ends in a slash (or, of a registry, has no tag) is that of a Repository, of which the
// latest snapshot is taken; any other is of one snapshot.
//
// # Repositories
//
// Push puts a snapshot into a Repository under a name of the time at which it was taken and of its SHA-256, as in
// 20261128T051143Z-3f2a9c1b7d44.larder. What has such a name never changes. The file latest has the name of the newest
// and a line feed; it is written last, so a reader never gets half a snapshot, and who reads one goes on when it is the
// latest no more. List, Describe and Prune look at such names only. What is in a snapshot is said by itself: there is
// no other catalogue that could be wrong.
//
// Handler serves a repository in a directory over HTTP, as any web server does.
//
// # Reading
//
// Over a network only the parts are fetched that are read, by HTTP ranges: the catalog, and the collections that are
// wanted. A connection that is cut is opened again where it was cut; the snapshot's own digests say whether what came
// is what was written. A server that does not know ranges is asked for the whole, which is kept in a temporary file
// until File.Close.
//
// # What is promised
//
//   - A server that sends nothing for 30 s, four times in a row, or less than 64 KiB in two minutes, fails the read:
//     the informer lists.
//   - A file that is replaced while it is read fails the read.
//   - Errors and names have the URL without user, password and query, which may be credentials.
package remote
