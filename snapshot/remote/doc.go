// Package remote opens snapshots at a URL for informers to begin with (informer.Options.Seed):
//
//	o.Seed = remote.Seed("https://cdn.example.com/cluster.larder", remote.Options{MaxAge: time.Hour})
//
// The URL is https://, http:// or file://, or a path. Over HTTP only the parts are fetched that are read: the catalog,
// and the collections that are wanted. A connection that is cut is opened again where it was cut; the snapshot's own
// digests say whether what came is what was written. A server that does not know ranges is asked for the whole, which
// is kept in a temporary file until File.Close.
//
// # What is promised
//
//   - A server that sends nothing for 30 s, four times in a row, fails the read: the informer lists.
//   - A snapshot that is replaced while it is read fails the read.
//   - Errors and names have the URL without user, password and query, which may be credentials.
package remote
