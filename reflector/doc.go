// Package reflector lists and watches one resource into a Sink. It resumes the watch at the sink's resourceVersion. It
// lists only if the server has lost the history since then, or if the server is another one than before.
//
// Implement Sink, call New, and then Run. A Reflector runs once.
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
// The transitions are the pure function next (state.go); each state is a method of session.
//
// # Verify and the guards: the requests of every connect
//
// The guards compare the server's history with the stored state, at every connect and before any event is delivered.
//
// With Options.Compare, and if ComparisonPays, the start of a resuming run and every connect after a lost connection
// take two round trips. The first one opens the watch. Once it is accepted, Options.Verify and Compare run at the same
// time. Each difference is a change since the stored state, so the watch has to deliver an event for it.
//
// Without a comparison the order is: Options.Verify; a list with limit=1 for the server's resourceVersion (the probe);
// the watch. Once the watch is accepted, and before any of its events is delivered, the reflector looks up the UID and
// resourceVersion of up to five of the newest stored objects (the look-ups). The findings:
//
//   - The stored resourceVersion is above the server's: relist, ReasonAhead. (A server accepts a watch from a future
//     resourceVersion, and sends nothing.)
//   - An object has another UID or state, at a resourceVersion that the stream has passed: relist, ReasonRewound.
//   - An object was deleted, or is newer than the stream. An event with that state or a later one must arrive before
//     the watch has passed the resourceVersion of the comparison or of the last look-up. Otherwise: relist,
//     ReasonRewound.
//   - An event contradicts the stored objects: its object has another UID than the stored object of that key, or it is
//     a MODIFIED or DELETED for a key without an object. The reflector checks this for the newest objects and for the
//     awaited ones, and does not deliver the event. The sink, which knows all objects, reports the other contradictions
//     (Reflector.Contradicted). Either causes a relist, ReasonRewound: once per connection, and after a wait if the
//     last list was recent. So an inconsistent server does not cause endless lists.
//
// Comparison and look-ups come after the watch, and that order is the proof. The server that answers them is the one
// that accepted the watch, or its successor; a successor breaks the watch. So the proof holds although client-go may
// repeat requests, or hold them back for a connection, while the server is replaced. If the watch breaks meanwhile, or
// a request fails, all of it starts again.
//
// How many objects are looked up without a comparison depends on how the last watch ended:
//
//   - Five at the start, after a watch that ended with an error or before its time-out, and if the next watch was
//     accepted more than a second later. A server that stops, or whose storage is replaced, ends its watches like that.
//   - One after a watch that ended in order: after its own time-out, while the reflector was waiting for an event. A
//     cut connection looks like an end by the server; only the time-out tells them apart. So a routine reconnect, every
//     five to ten minutes, costs two requests for one object each, and the watch.
//   - None after a drain.
//
// Objects whose event was still awaited when a connection was lost are looked up first at the next connect.
//
// A look-up is a list with a field selector on name and namespace. Look-ups stop for the rest of the run if the answer
// has another object (a ListerWatcher may overwrite the selector), if the server refuses the selector, or if an object
// is too large for the link. If the object of the probe is too large, the probe lists an object that does not exist.
//
// The look-ups miss a server that was restored from a backup and has overtaken the stream in two cases. In the first,
// the lost part of history did not touch the objects that are looked up, or each has changed again since. In the
// second, the process dies during the drain, after events of the new history have displaced the contradicting objects
// from the newest. Then objects that the lost part created remain stored, and objects that it deleted are missing,
// until the next event about one of them contradicts the stored objects. Without that event, and for objects that the
// lost part only changed, it takes a comparison of all objects (the informer's audit), which calls Relist. Nor do the
// look-ups notice a change without a new resourceVersion, such as a new default of a CRD.
//
// # Drained
//
// Sink.Synced is called when the server's state at the probe has been delivered. With equal resourceVersions that is
// when the watch is accepted. Otherwise an event or bookmark at or above the probe's resourceVersion must have arrived,
// and events must have explained the look-ups. So the first watch has a time-out of three seconds: servers send a
// bookmark two seconds before the end. If it ends without one, another watch follows. A new probe precedes it, but the
// target stays, because a busy server's newest resourceVersion would never be reached.
//
// Nothing can prove the end of a drain if the server never sends bookmarks and other resources advance its
// resourceVersion. Then four watches in a row that are silent to the end of their time-out suffice.
//
// After a comparison, Synced is called when the awaited events have arrived. No bookmark is needed, and the watch has
// an ordinary time-out. After ten seconds of silence a watch with a time-out of three seconds replaces it; its look-ups
// and bookmark show whether the events arrive at all. If the objects cannot be compared, the probe, the look-ups and
// the drain follow, at this connect and for the rest of the run. That is the case for ErrIncomparable, if metadata are
// refused, and if they have not arrived ten seconds after the request. A rewound server may give an object its old
// resourceVersion again, with another body: it looks unchanged, to the look-ups and to an audit as well.
//
// # Watch
//
// The reflector backs off, and watches again from the newest delivered resourceVersion, after every error of the
// transport (closed, reset, refused, DNS, time-out, a watch that ends right after it began), and after 401, 429, 502
// and 503. It never lists for them. It lists only for these reasons:
//
//   - 410, or the 500 that an API server without a watch cache sends if etcd was compacted at exactly the next event;
//   - "resource version too large";
//   - a failed guard;
//   - an event that cannot be decoded, for the second time at one resourceVersion (an ERROR event with the cause
//     ClientWatchDecoding);
//   - a resource that cannot be watched (403, 404, 405), or whose watches are refused; both are described below;
//   - Options.Verify or Reflector.Relist asks for it.
//
// The back-off is random below 800 ms, and doubles with each failure up to 30 s, on top of Retry-After. A list resets
// it, and so does a watch that has lived two minutes. A watch that ends in order at its own time-out is followed by
// another at once. A watch that ends earlier, but not at once, is followed by another within 800 ms, because the server
// has probably ended the watches of other clients too.
//
// Any other refusal of a watch, as its answer or as an ERROR event, is retried like an error of the transport. But
// kine and dqlite, and API servers on them, answer a compacted resourceVersion with 400, 500 or 504. So after three
// refusals in a row from one resourceVersion, over ten seconds or more, a probe follows (the state Refused). If the
// probe shows another resourceVersion, or if nothing was confirmed in this run yet, a list for ReasonExpired follows. A
// lost connection in between is not counted, and does not reset the count.
//
// A watch that is silent for two and a half minutes is checked by a probe (bookmarks arrive once a minute). If the
// server is at the delivered resourceVersion, nothing was missed and the watch stays. Otherwise the watch is closed and
// opened again, which counts as an error if it had sent bookmarks. So a quiet resource of a server without bookmarks
// costs a request every two and a half minutes, and a dead connection is noticed within that time on any server.
//
// On a thin link a large event looks like a dead connection, and a new watch receives it from its first byte. So after
// a watch that was closed for its silence, the next one from the same resourceVersion may be silent for five minutes,
// and later ones for ten. The same holds for a drain, whose limit is otherwise half a minute.
//
// # Resources that can be listed and not watched
//
// 403, 404 and 405 as the answer to a watch show as Degraded. The watch is retried after the usual back-off, because
// permissions and CRDs are often applied a moment later. If the server lists the resource, Status.ListOnly is true, and
// a list for ReasonListOnly follows 30 to 60 seconds after the first of these answers, plus a random time up to
// Options.RelistSpread; then the same again. A run that has not called Synced yet lists at once. If a later watch is
// accepted, it resumes from the last list. Without a resourceVersion to resume from, the watch is not retried between
// two lists.
//
// No watch is folded into these lists. If a list by metadata fetches an object in another state than the listed one, no
// event completes the state at one resourceVersion. Then whole objects are listed for the rest of the run. The same
// holds for a list for another reason if its folded watch is denied or refused, three times over ten seconds.
//
// # Relist
//
// Pages at resourceVersion "" are delivered to the sink one by one, and one page is fetched ahead. If there is more
// than one page, a watch from the first page's resourceVersion is folded in (see list), so that the history cannot
// expire during a slow list. That watch stays open after the list. After a transport error the same page is requested
// again. An expired continue token is replaced by the token that the server offers; the list then ends when the folded
// watch has reached the last page. If that fails, the list is aborted and started again. If the server offers no other
// token, the new list is one answer without a limit. Errors of the folded watch are reported like any watch's errors.
//
// A page has as many objects as the link carries in time, and a bounded size. The first page of a run has 500 objects,
// because their size is unknown (500 of 100 KB are 50 MB; 2,000 would be 200 MB). Each following page has twice as
// many, up to Options.PageSize. The two small pages at the start cost 2 % of a list of 100,000 pods (37 ms of the
// server's CPU each); pages of 500 throughout would cost 2.8 times as much as pages of 2,000. Exceptions, and the next
// limit:
//
//	the page timed out (a 504 too),    half as many, down to two, with the same continue token; if that took 20 s
//	or its answer broke off            or longer and happens again, a fourth, then an eighth. A larger limit is tried
//	                                   again after one page; if it fails, after two, then four, up to 32
//	it took 20 s or longer             the same number: API servers cut answers that take a minute
//	its objects are large              as many as make 16 MiB, by the mean size of up to 64 of them, not compressed
//	it was refused (any other status), the same number
//	was put off for all of its time
//	(client-go's REST client waits for
//	Retry-After, ErrPutOff), or the
//	server could not be reached
//
// The limits are kept for the run. So at most two pages of 16 MiB are in memory, unless a page's objects are larger
// than the objects of the page before.
//
// A page of two, a probe and a look-up cannot be made smaller. If one has failed after its 90 s, its retry has twice as
// much time, up to twelve minutes. But API servers cut off an answer after a minute. So with Options.ListMetadata the
// range of the smallest page is requested by metadata, and each of its objects by name, once that page has failed twice
// in a row in one of two ways: after 20 s or longer, though within its time-out; or after the longest time-out. The
// list continues so, two objects at a time, until each object of a range has arrived in less than 20 s. An object that
// cannot arrive within the server's minute, and the smallest page without Options.ListMetadata, are requested again
// without end; Status.Err has the error.
//
// # Lists by metadata
//
// With Options.ListMetadata, and if Options.MetadataPays, a relist for ReasonExpired, ReasonStore or ReasonListOnly
// requests pages by metadata. Objects that the sink holds in the listed state (Sink.Known) are not fetched. The others
// are fetched one by one, each by a list with its name as a field selector, before the next page is requested. If they
// are more than a quarter of a page, that page and all following ones are requested as whole objects.
//
// A fetched object may be newer than the list, or deleted. So the watch is folded in from the first page on, even if
// there is no second page, and the list ends when the watch has reached the resourceVersion of every fetch. A failed
// fetch is repeated like a page, and the list does not end without it. If the server refuses metadata, or answers a
// fetch with another object, whole objects are listed for the rest of the run.
//
// # Many reflectors, one server
//
// Reflectors that share an Options.Limiter connect eight at a time and list two at a time, in the order of their
// requests. A reflector whose last request has failed waits behind the others. A slot does not count while its request
// has had no byte of an answer for 250 ms, so a resource that hangs in its conversion webhook does not block the
// others; at most 64 slots of each kind are exempt in this way. The slot to connect is released when the server has
// accepted the watch or answered the first page. The slot to list is released at the end of the list, while a page
// waits for its retry, and while the sink has not accepted a page for ten seconds. Both are released while a call is
// overdue. A reflector that waits for a slot while the link is down is not live.
//
// The link is down if a request has no answer (no Status, or a 502, 503 or 504) and no other reflector got an answer
// meanwhile. The first back-off is each reflector's own. From the second failure on one back-off holds for all, with
// the same bounds: one reflector tries, and another one after ten seconds if the first one hangs. Any answer to any of
// them ends it for all. So an outage costs a process as many requests as one reflector makes, and 300 watches that
// break together count as one failure. An error that the server answers concerns only the reflector that receives it.
//
// Options.RelistSpread delays the list after a 410, and the lists of a resource that cannot be watched, by a random
// time, if the sink holds objects to serve.
//
// # Strays
//
// A stray is an object of another type than the expected one, or one that Options.Admit refuses. It means that the
// ListerWatcher does not list the sink's collection, and that objects of it may be missing. So from the first stray
// until the end of a list without strays, the sink receives no resourceVersion: the next start resumes from an earlier
// one, or lists. (Strays by Go type are excepted, since a program with another type does not resume.) A list with
// nothing but strays is an error and is aborted, because it says nothing about the stored objects.
//
// # Shards
//
// With Options.Shard the ListerWatcher requests one shard of a resource (KEP-5866). A server that does not know the
// selector, or whose feature gate is off, sends everything and does not say so. So the reflector applies the selector
// to every object and event, deletions included, and drops objects of other shards; Status.Unsharded reports them.
// Their events advance the reflector, and with the next bookmark the sink. An object that is deleted and created again
// has another UID and may move to another shard: this shard receives the deletion, the other one the addition.
//
// A list with nothing but objects of other shards is an empty shard, on a server that ignores the selector. But with so
// many objects some should be of this shard: then the ListerWatcher requests another shard, and the list is aborted
// like a list of strays (ErrStrays).
//
// # resourceVersions that cannot be compared
//
// Some aggregated APIs have them. They are never delivered: the sink receives "", and every start lists. Within a run a
// watch resumes from the resourceVersion of the last event, as in client-go, so that no older state follows a newer
// one. If the list has no resourceVersion, each reconnect lists.
//
// # Ownership
//
// Only Run's goroutine calls the sink, and events keep their order. It owns the other goroutines (one for a page, one
// for a watch that is being opened) and waits for them. A panic of a
// ListerWatcher is handled as in client-go: the process ends, or, with utilruntime.ReallyCrash off, the call is
// repeated.
//
// A call of a ListerWatcher must return when its context ends, after 90 s at the latest (later over a thin link: see
// Relist). Five seconds after that the call is overdue; Status.Err and Options.OnError (once for each call) report it
// with its duration. The reflector waits for the call until Run's own context has ended, because further calls would
// only pile up. Five seconds after that it abandons the call and drops its result. Options.Verify and Options.Compare
// are bounded likewise, but abandoned as soon as they are overdue; while five calls of one of them have not returned,
// it is not called again. A watch has five seconds to end after its Stop was called, whether or not Stop returns.
//
// If a method of the sink blocks, the reflector stops reading the watch. The server waits, and finally closes it.
package reflector
