// Package source is where commands get their data from: a store's file, the sync that holds it, or a snapshot.
//
// bbolt locks its file for one writing process, so a second process can open
// it neither for writing nor for reading. A running sync therefore serves what
// commands ask for on a Unix socket beside the store. [Open] tries the file first and the socket second, and returns a
// [Source]: its status, and streams of entries, whose payloads are the bytes that are stored. [Objects] decodes them,
// on all cores, for who needs the objects. docs/adr/0004 has the reasons.
//
//	snapshot          Open → Snapshot → snapshot.File
//	file, not held    Open → File → store.Store
//	file held         Open → Client ── socket ──► Server → the sync, a Holder → File → store.Store
//
// # Protocol
//
// HTTP/1.1 over the socket that [SocketPath] names. The parameter q has what is asked for, in JSON. POST changes
// something or takes long.
//
//	GET  /larder/v2/sync      Sync
//	GET  /larder/v2/status    Status
//	GET  /larder/v2/check     store.Report
//	POST /larder/v2/compact   store.Compacted: the file is written anew
//	POST /larder/v2/rekey     store.Compacted: all is sealed anew; q is the id of the key
//	POST /larder/v2/audit     [Audited…]: all is compared with the server, and what differs is repaired
//	GET  /larder/v2/records   entry.Entry for each that the Query q selects, in key order, with the stored payload
//	GET  /larder/v2/changes   Logged for each that the LogQuery q selects; the last is a Bookmark
//	GET  /larder/v2/watch     Event for each change, of the WatchQuery q, until the client ends it
//	POST /larder/v2/snapshot  a snapshot of the store, not encrypted, of the SaveRequest q
//
// The first six are answered in JSON, the next three with a stream of values in gob, the last with a file. An answer
// other than 200 has an error in JSON: {"error":"…"} and perhaps a "code" that says what kind it is. A stream ends with
// the trailer Larder-End, which has the error, or {}; one that ends otherwise is broken. A process of another version
// of the protocol does not know the path: its answer names both versions.
//
// A client may pause for as long as it likes, as a pager does. Memory is a page and a buffer for each. A watch asks
// beside its stream who the sync is, to notice one that is stopped.
//
// # Order, consistency, ownership
//
// Entries are selected in the process that has the file, by their bytes where these tell. They come in key order, a
// page at a time, each page from one transaction: what changes in the meantime may or may not be seen, and memory is
// one page whatever the collection's size. No transaction is open while an entry is handed on, so a reader that pauses
// (a pager) does not hold up the sync.
//
// What a store seals is opened by the process that has its keys. Everybody who can connect to the socket can read it:
// the socket has mode 0600, as the store has. A client trusts the process behind the socket if that runs as root, as
// the client's own user, or as the owner of the store's file (ErrStranger).
//
// A Server owns its goroutines; Close ends them and waits. A File made by Open owns the store that it has opened.
package source
