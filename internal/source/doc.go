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
// HTTP/1.1 over the socket that [SocketPath] names. Answers in JSON, to GET, and to POST where it says so:
//
//	/v1/ping      Sync
//	/v1/status    Status
//	/v1/check     store.Report
//	/v1/compact   store.Compacted; POST, since it writes the file anew
//	/v1/audit     [Audited…]; POST: all is compared with the server, and what differs is repaired
//	/v1/rekey     store.Compacted; POST: all is sealed anew
//
// An answer other than 200 has the body {"error":"…"}, and perhaps a "code" that says what kind of error it is.
//
// Streamed answers are frames in gob. The last one has End, or Failure with the error; an answer that ends otherwise is
// broken. The query holds the fields of WatchQuery.
//
//	/v1/entries   Entry for each entry that the query selects, in key order; End has their number, and what is damaged
//	/v1/watch     Event for each change until somebody ends it, and Beat every ten seconds
//	/v1/snapshot  Data: a snapshot of the store, not encrypted; POST with a SaveRequest
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
