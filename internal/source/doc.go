// Package source is where the reading commands get their data from: a store's
// file, the sync that holds it, or a snapshot.
//
// bbolt locks its file for one writing process, so a second process can open
// it neither for writing nor for reading. A running sync therefore serves what
// the reading commands ask for on a Unix socket beside the store. [Open] tries
// the file first and the socket second, and returns a [Source]: the commands
// do not know which of the two they read. docs/adr/0004 has the reasons.
//
//	snapshot          Open → Snapshot → snapshot.File
//	file, not held    Open → File → store.View
//	file held         Open → Client ── socket ──► Server → the sync's Source → store.View
//
// # Protocol
//
// HTTP/1.1 over the socket that [SocketPath] names. GET, and POST where it says so.
//
//	/v1/ping      Sync
//	/v1/status    Status
//	/v1/check     store.Report
//	/v1/compact   store.Compacted; POST, since it writes the file anew
//	/v1/audit     [Audited…]; POST: all is compared with the server, and what differs is repaired
//	/v1/rekey     store.Compacted; POST: all is sealed anew
//	/v1/snapshot  a snapshot of the store, not encrypted; POST with a SaveRequest. The trailer Larder-Error says why it is not whole
//	/v1/objects   one JSON value a line: {"object":{…}} for each object, in key
//	              order, perhaps {"unreadable":{…}} for those that are damaged, and {"end":N} after the last. A stream that does not finish with
//	              "end" is incomplete; {"error":"…"} says why. The query holds the fields of Query.
//
//	/v1/watch     one JSON value a line until somebody ends it: {"event":{"type":…,"object":{…},"seq":N}} for each change, {"event":{"type":"BOOKMARK","seq":N}}
//	              when there is no more for now, {"beat":true} every ten seconds in which nothing else is sent, and {"error":{…}} at the end. The
//	              query holds the fields of WatchQuery.
//
// An answer other than 200 has the body {"error":"…"}, and perhaps a "code" that says what kind of error it is.
//
// # Order, consistency, ownership
//
// A collection's objects are selected by the store, which decodes no others, in whichever process has the file.
// They come in key order, a page at a time, each page from one transaction:
// what changes in the meantime may or may not be seen, and memory is one page
// whatever the collection's size. No transaction is open while an object is
// handed on, so a reader that pauses (a pager) does not hold up the sync.
//
// A Server owns its goroutines; Close ends them and waits. A File made by Open
// owns the store that it has opened. Everybody who can connect to the socket can read
// the objects: it has mode 0600, as the store has.
package source
