// Package remote reads and stores snapshots at URLs, as seeds for informers (informer.Options.Seed):
//
//	o.Seed = remote.Seed("https://cdn.example.com/production/", remote.Options{MaxAge: time.Hour})
//
// A URL is a path, file://, https:// or http://. Packages s3 and oci provide further schemes for Options.Schemes, and a
// program can add its own with an implementation of Files. A URL that ends in a slash (for a registry: without a tag)
// is a Repository, and stands for its latest snapshot. Any other URL is one snapshot.
//
// # Repositories
//
// Push adds a snapshot to a Repository. The name consists of the snapshot's time and the start of its SHA-256, as in
// 20261128T051143Z-3f2a9c1b7d44.larder. A file with a name of this form never changes. The file latest contains the
// name of the newest snapshot and a line feed. It is written last, so a reader never finds a partial snapshot. A reader
// of one snapshot is not disturbed when the next becomes the latest. List, Describe and Prune ignore files with other
// names. Each snapshot describes itself: there is no other catalogue, which could be wrong.
//
// Handler serves a repository in a directory over HTTP, as any web server does.
//
// # Reading
//
// Over a network only the requested parts are downloaded, by HTTP ranges: the catalog, and the collections in use.
// After a broken connection the download continues at the same offset. The digests in the snapshot detect any
// difference from the written file. From a server without ranges the whole file is downloaded, and kept in a temporary
// file until File.Close.
//
// # Promises
//
//   - If the server sends nothing for 30 s, four times in a row, or less than 64 KiB in two minutes, the read fails and
//     the informer lists.
//   - If the file is replaced during a read, the read fails.
//   - Errors and names have the URL without user, password and query, which may be credentials.
package remote
