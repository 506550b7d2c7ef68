// Package reflector lists and watches one resource into a Sink. It resumes the watch at the sink's resourceVersion. It
// lists only if the server has lost the history since then, or if the server is another one than before.
//
// Implement Sink, call New, and then Run. A Reflector runs once. docs/adr/0003-reflector.md has reasons and numbers.
//
// # States
//
//	Restore ──resumable──► Verify ──behind──► Drain ──drained──► Watch
//	   │                    │  ▲ └──level──────┼──────────────────►│ ▲
//	   │                    │  └───────────────┴──ended────────────┘ │
//	   └──mustList──────────┴───────────► Relist ────────listed──────┘
//
//	Relist ──resumable──► Verify, after a seed (Options.Seed) has replaced the list
//	Watch ──behind──► Drain, if the look-ups await events
//	Drain, Watch ──refused──► Refused ──mustList──► Relist if the server has moved on; otherwise failed
//	any ──failed──► Backoff ──waited──► Verify, or Relist if a list is due
//	any ──denied──► Degraded ─waited──► the same
//	any ──mustList─► Relist. A Backoff comes first if the last list was less than two minutes ago (unless
//	                 Reflector.Relist was called with another reason than Rewound), and after a 410 for
//	                 Options.RelistSpread
//	any ──stop────► Stopped
//
// # Order
//
// Only Run's goroutine calls the sink, and events keep their order. Each carries the highest resourceVersion so far, so
// the sink can store both in one transaction. A list and the events during it come between BeginReplace and EndReplace.
// If a method of the sink blocks, the reflector stops reading the watch. The server waits, and finally closes it.
//
// Synced is called when the server's state at the connect has been delivered. If the probe (below) finds the server at
// the sink's resourceVersion, that is when the watch is accepted. Otherwise an event or bookmark at or above the
// probe's resourceVersion must have arrived, and events must have explained the differences that the guards have found.
// So the first watch has a time-out of three seconds: servers send a bookmark two seconds before the end. After a
// comparison the events suffice.
//
// # Verify and the guards
//
// The guards compare the server's history with the stored state, at every connect and before any event is delivered:
//
//  1. Options.Verify, and the probe: a list with limit=1 for the server's resourceVersion.
//  2. The watch.
//  3. Once the watch is accepted, the look-ups: the UID and resourceVersion of up to five of the newest stored objects.
//
// With Options.Compare, and if ComparisonPays, a resuming start and a connect after a lost connection begin with the
// watch. Once it is accepted, Verify and Compare run at the same time. Compare then replaces the probe and the
// look-ups. The findings:
//
//   - The stored resourceVersion is above the server's: relist, ReasonAhead. (A server accepts a watch from a future
//     resourceVersion, and sends nothing.)
//   - An object has another UID or state, at a resourceVersion that the stream has passed: relist, ReasonRewound.
//   - An object was deleted, or is newer than the stream. An event with that state or a later one must arrive before
//     the watch has passed the resourceVersion of the comparison or of the last look-up. Otherwise: relist,
//     ReasonRewound.
//   - An event contradicts the stored objects: its object has another UID than the stored object of that key, or it is
//     a MODIFIED or DELETED for a key without an object. The reflector checks the newest objects and the awaited ones,
//     and does not deliver the event. The sink reports the other contradictions (Reflector.Contradicted). Either causes
//     a relist, ReasonRewound: once per connection, and after a wait if the last list was recent.
//
// The order is the proof. Comparison and look-ups are answered by the server that accepted the watch, or by its
// successor, and a successor breaks the watch. If the watch breaks meanwhile, or a request fails, all of it starts
// again. A server that was restored from a backup and has overtaken the stream goes unnoticed if none of the compared
// objects shows it: docs/adr/0003-reflector.md has the cases, and the informer's audit finds it.
//
// # When it lists
//
// After every error of the transport (closed, reset, refused, DNS, time-out, a watch that ends right after it began),
// and after 401, 429, 502 and 503, the reflector backs off and watches again from the newest delivered resourceVersion.
// It lists only for these reasons:
//
//   - 410, or the 500 that an API server without a watch cache sends if etcd was compacted at exactly the next event;
//   - "resource version too large";
//   - a failed guard;
//   - an event that cannot be decoded, for the second time at one resourceVersion (an ERROR event with the cause
//     ClientWatchDecoding);
//   - a resource that the server lists and does not watch (403, 404, 405): 30 to 60 seconds after the first of these
//     answers, and so on (Status.ListOnly); at once if the run has not called Synced yet;
//   - three other refusals in a row from one resourceVersion, over ten seconds or more, if a probe then shows another
//     resourceVersion, or if nothing was confirmed in this run yet: kine and dqlite refuse a compacted one so;
//   - Options.Verify, Reflector.Relist or the sink's Checkpoint asks for it;
//   - a resourceVersion that cannot be compared, or a list that had strays (below).
//
// The back-off is random below 800 ms, and doubles with each failure up to 30 s, on top of Retry-After. A list resets
// it, and so does a watch that has lived two minutes. A watch that ends in order at its own time-out is followed by
// another at once; one that ends earlier, but not at once, by another within 800 ms.
//
// A watch that is silent for two and a half minutes is checked by a probe. So a dead connection is noticed within that
// time on any server, and a quiet resource of a server without bookmarks costs a request as often. On a thin link,
// where a large event looks like silence, the time is up to ten minutes.
//
// # A list
//
// Pages at resourceVersion "" are delivered one by one, and one page is fetched ahead. A page has up to
// Options.PageSize objects, about 16 MiB, or as much as the link carries in time. At most two pages are in memory. If
// there is more than one page, a watch from the first page's resourceVersion is folded in, so that the history cannot
// expire during a slow list. That watch stays open after the list. After a transport error the same page is requested
// again. An expired continue token is replaced by the token that the server offers; if it offers none, another list
// follows, as one answer. With Options.ListMetadata a list may fetch only the objects that the sink does not hold.
//
// # Strays and shards
//
// A stray is an object of another type than the expected one, or one that Options.Admit refuses. From the first stray
// until the end of a list without strays, the sink receives no resourceVersion: the next start resumes from an earlier
// one, or lists. With Options.Shard, objects and events of other shards are dropped. A list with nothing but strays, or
// with so many objects of other shards that some should be of this one, is aborted (ErrStrays): it says nothing about
// the stored objects.
//
// # resourceVersions that cannot be compared
//
// Some aggregated APIs have them. They are never delivered: the sink receives "", and every start lists. Within a run a
// watch resumes from the resourceVersion of the last event, as in client-go, so that no older state follows a newer
// one. If the list has no resourceVersion, each reconnect lists.
//
// # Ownership
//
// Run owns its other goroutines (one for a page, one for a watch that is being opened) and waits for them. A call of a
// ListerWatcher must return when its context ends, after 90 s at the latest (later over a thin link). Five seconds
// after that it is overdue; Status.Err and Options.OnError (once a call) report it with its duration. Run waits for it
// until its own context has ended, and five seconds more, since further calls would pile up. Then it abandons the call
// and drops its result. A watch has five seconds to end after its Stop was called, whether or not Stop returns. If a
// ListerWatcher panics, the process ends, as in client-go; with utilruntime.ReallyCrash off, the call is repeated.
package reflector
