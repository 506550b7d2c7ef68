// Package source provides the data of larder's commands: from a store's file, from the sync that has locked the file,
// or from a snapshot. A sync is a process of larder sync, which mirrors resources into the store.
//
// bbolt locks the file for one writing process, so no second process can open it, even for reading. A running sync
// therefore answers commands on a Unix socket beside the store. [Open] tries the file first and the socket second. It
// returns a [Source]: the store's status, and streams of entries with their stored payloads. [Objects] decodes them on
// all cores. docs/adr/0004 has the reasons.
//
//	snapshot          Open → Snapshot → snapshot.File
//	file, not held    Open → File → store.Store
//	file held         Open → Client ── socket ──► Server → the sync, a Holder → File → store.Store
//
// # Protocol
//
// HTTP/1.1 over the socket of [SocketPath]. The parameter q has the request in JSON. POST is for requests that change
// something or take long.
//
//	GET  /larder/v3/sync      Sync
//	GET  /larder/v3/status    Status
//	GET  /larder/v3/check     store.Report
//	POST /larder/v3/compact   store.Compacted; rewrites the file without free pages
//	POST /larder/v3/rekey     store.Compacted; rewrites the file under the current key; q is its id
//	POST /larder/v3/audit     [Audited…]; compares all collections with the API server, and repairs differences
//	GET  /larder/v3/records   stream of blocks with the entries of the Query q, in key order, with stored payloads
//	GET  /larder/v3/changes   stream of the Logged values of the LogQuery q; the last is a Bookmark
//	GET  /larder/v3/watch     stream of the Event values of the WatchQuery q, until the client disconnects
//	POST /larder/v3/snapshot  the snapshot of the SaveRequest q, not encrypted
//
// The first six respond with JSON, the next three with a stream of gob values, and the last one with a file. A block is
// a []byte with entries as in a block of a snapshot (package layout), about 256 KiB. Every response ends with the
// trailer Larder-End in JSON: {}, or {"error":"…"} with a "code" if the client must know the kind of the error. A
// response without the trailer is incomplete. A process with another version of the protocol returns 404 with both
// versions.
//
// A client, such as a pager, may pause without limit. Each request needs memory for one page of entries, a block and a
// buffer. While a client watches, it also requests the sync's description from time to time, to detect a stopped
// process.
//
// # Order, consistency, ownership
//
// The process that has opened the file selects the entries, by their bytes if possible. Entries are sent in key order,
// in pages. Each page is read in its own transaction. A read may therefore miss concurrent changes, and its memory is
// bounded by a page. No transaction is open while an entry is passed on, so a reader that pauses does not block the
// sync.
//
// The process that has the keys decrypts sealed entries. Any client that can connect to the socket can read them: the
// socket has the mode 0600, like the store. A client trusts the process behind the socket if it runs as root, as the
// client's own user, or as the owner of the store's file (ErrOtherUser).
//
// A Server owns its goroutines; Close ends them and waits. A File from Open owns its store.
package source
