// Package reflector lists and watches one resource into a Sink. It resumes the watch at the sink's resourceVersion, and
// lists only if the server has lost the history since then, or is not the server that was listed.
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
//	Relist ──resumable──► Verify, if a first list had to wait for the server and the sink holds objects by now, or if
//	                      Options.Seed has spared the list
//	Drain, Watch ──refused──► Refused ──mustList──► Relist, if the server has moved on; otherwise failed
//	any ──failed──► Backoff ──waited──► Verify, or Relist if a list is due
//	any ──denied──► Degraded ─waited──► the same
//	any ──mustList─► Relist, after a Backoff if the last list was less than two minutes ago (unless Reflector.Relist
//	                 was called with another reason than Rewound), and after Options.RelistSpread
//	any ──stop────► Stopped
//
// The transitions are the pure function next (state.go); each state is a method of session.
//
// # Verify and the guards: the requests of every connect
//
// At the start of a run that resumes, and after a lost connection, if Options.Compare is set and ComparisonPays: the
// watch; and, once it is accepted and before any event of it is delivered, Options.Verify and Compare at the same time.
// So these connects take two round trips. What differs must have changed since the state held, and is awaited from the
// watch.
//
// Otherwise, in this order: Options.Verify; the server's resourceVersion, by a list with limit=1 (the probe); the
// watch; and, once the watch is accepted and before any event of it is delivered, the UID and resourceVersion of up to
// five of the newest objects held (the look-ups).
//
//   - The resourceVersion held is above the server's: relist, ReasonAhead. (A watch from the future is accepted, and
//     sends nothing.)
//   - An object is another one, or in another state, at a resourceVersion that the stream has passed: relist,
//     ReasonRewound.
//   - An object is gone, or newer than the stream: an event that brings that state, or a later one, must come before
//     the watch has passed the resourceVersion of the comparison, or of the last look-up; otherwise relist,
//     ReasonRewound.
//   - An event contradicts the objects held: it is about an object with another UID than the one under its key, or it
//     is a MODIFIED or DELETED for a key without an object. The reflector checks this for the newest objects and for
//     those whose event is awaited, and does not deliver the event. The sink, which holds all objects, reports it for
//     the others (Reflector.Contradicted). Either causes a relist, ReasonRewound, once per connection, and soon after
//     another list only after a wait: a server that is merely odd is not listed in a circle.
//
// Comparison and look-ups follow the watch because of what their order proves: they are answered by the server that
// has accepted the watch, or by a later one, and then the watch breaks. So it does no harm if client-go repeats
// requests, or if they wait for a connection, while the server is replaced. If the watch breaks meanwhile, or a
// request fails, all of it starts again.
//
// Without a comparison five objects are looked up at the start, after every watch that ended with an error or before
// its time (as a server ends its watches when it is stopped or its storage is replaced), and if more than a second
// passed before the next watch was accepted. A connection that is cut looks like one that the server ends. So a watch
// counts as ended in order only if it ended after its own time-out while the reflector was waiting for an event. After
// such a watch (every five to ten minutes) one object is looked up, and after a drain none: a routine reconnect costs
// two requests of one object, and the watch. Objects whose event was still awaited when a connection was lost are
// looked up first at the next.
//
// A look-up is a list with a field selector on name and namespace. If another object is returned (by a ListerWatcher
// that overwrites the selector), the server refuses the selector, or an object is too large for the link, there are no
// look-ups for the rest of the run. If the object of the probe is too large, the probe lists one that does not exist.
//
// The look-ups miss a server that was restored from a backup and has overtaken the stream, if in the lost part of
// history nothing happened to the objects that are looked up, or each was changed again since. They also miss it if the
// process dies after events of the new history have replaced the contradicting objects among the newest, and before the
// drain is over. Then objects that were created in the lost part remain, and objects that were deleted in it are
// missing, until the first event about one of them, which contradicts the objects held. If none comes, and for objects
// that were only changed in the lost part, it takes a comparison of all objects (the informer's audit), which calls
// Relist. A change without a new resourceVersion (a new default of a CRD) is not seen either.
//
// # Drained
//
// Sink.Synced is called when everything that the server had at the probe has been delivered. If the resourceVersions
// are equal, that is when the watch is accepted. Otherwise it is when an event or bookmark at or above the probe's has
// come and the look-ups are explained. For that, the first watch asks for a time-out of three seconds, since a server
// sends a bookmark two seconds before the end. If it ends without, another watch follows, with a new probe but the old
// aim, since the new one of a busy server would never be reached. If a server never sends bookmarks, and other
// resources advance its resourceVersion, nothing can prove it. Then four such watches in a row have to do, each silent
// to the end of its time-out.
//
// After a comparison it is when the awaited events have come: no bookmark is waited for, and the watch has an ordinary
// time-out. If it is silent for ten seconds meanwhile, it is replaced by one with a time-out of three seconds, whose
// look-ups and bookmark show whether the events come at all. If the objects cannot be compared (ErrIncomparable,
// metadata are refused, they have not come ten seconds after the request), the probe, the look-ups and the drain
// follow, at this connect and for the rest of the run. An object to which a rewound server has given the same
// resourceVersion again, with another body, looks unchanged, as it does to the look-ups and to an audit.
//
// # Watch
//
// After every error of the transport (closed, reset, refused, DNS, time-out, a watch that ends right after it began),
// and after 401, 429, 502 and 503, the reflector waits, and then watches again from the newest resourceVersion
// delivered. It never lists for them. It lists on 410 (or what an API server without a watch cache says in its place,
// once etcd was compacted at exactly the next event), on "resource version too large", on a failed guard, if an event
// cannot be decoded for the second time at one resourceVersion (the cause ClientWatchDecoding of an ERROR event), if
// the resource cannot be watched (403, 404, 405; see below), if its watches are refused, and if Options.Verify or
// Relist asks for it, and for no other reason. The wait is random below 800 ms, doubled with each failure up to 30 s,
// on top of Retry-After. It is short again after a list, and after a watch has lived two minutes. A watch that ends in
// order at its own time-out is followed by another at once. One that has lived and ends before that is followed within
// 800 ms: the server has probably ended others, too.
//
// Any other refusal, as the answer to a watch or as an ERROR event, is tried again like an error of the transport. But
// kine and dqlite, and API servers before them, answer a compacted resourceVersion with 400, 500 or 504. So after three
// refusals in a row from one resourceVersion, over ten seconds or more, a probe follows (the state Refused). If it
// shows another resourceVersion, or nothing was confirmed in this run yet, the server is listed for ReasonExpired. A
// lost connection in between neither counts nor begins the count anew.
//
// A watch that is silent for two and a half minutes (bookmarks come once a minute) is checked by a probe. If the
// resourceVersion is the one held, nothing was missed and the watch stays. Otherwise it is closed and opened again,
// which counts as an error if the watch had sent bookmarks. So a quiet resource of a server without bookmarks costs a
// request every two and a half minutes, and a dead connection is found within that time on any server.
//
// On a thin link a large event looks like a dead connection, and a new watch receives it from its first byte. So after
// a watch that was closed for its silence, the next one from the same resourceVersion may be silent for five minutes,
// and later ones for ten. (The same holds for a drain, which otherwise has half a minute.)
//
// # Resources that can be listed and not watched
//
// 403, 404 and 405 as the answer to a watch show as Degraded. The watch is tried again after the usual waits, because
// permissions and CRDs are often applied a moment later. If the server lists the resource, Status.ListOnly is true, and
// 30 to 60 seconds after the first such answer, plus a random time up to Options.RelistSpread, a list for
// ReasonListOnly follows; then the same again. A run that has not called Synced yet lists at once. A watch that is
// accepted later resumes from the last list. Without a resourceVersion to resume from, no watch is tried between two
// lists.
//
// No watch is folded into these lists. If a list by metadata fetches an object in another state than the listed one,
// no event makes it the state at one resourceVersion. Then whole objects are listed, for the rest of the run. The same
// holds for a list for another reason whose folded watch is denied or refused, three times over ten seconds.
//
// # Relist
//
// Pages at resourceVersion "" go to the sink one by one, and the next one is fetched meanwhile. If there is more than
// one, a watch from the first page's resourceVersion is folded in (see list), so that the history cannot expire during
// a slow list; it goes on after the list. After a transport error the same page is requested again. An expired continue
// token is replaced by the one that the server offers; the list then ends when the folded watch has reached the last
// page. If that fails, the list is aborted and started again; if the server offers no other token, as one answer
// without a limit. Errors of the folded watch are reported like those of any
// watch.
//
// A page has as many objects as the link carries in time, and a bounded size. The first page of a run has 500 objects,
// since nothing is known of them (500 of 100 KB are 50 MB, 2,000 would be 200 MB). Each following page has twice as
// many, up to Options.PageSize. The two small pages at the start are 2 % of what a list of 100,000 pods costs the
// server, 37 ms of CPU each; all pages of 500 instead of 2,000 would cost it 2.8 times as much. Exceptions, and the
// next limit:
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
// A request that cannot be made smaller (a page of two, a probe, a look-up) and that has failed after 90 s gets twice
// as much time when it is repeated, up to twelve minutes. But API servers end an answer after a minute. If they have
// ended the smallest page twice in a row, each after 20 s or longer and not because the reflector's own time was over,
// or after its longest time, the list starts again as one watch of up to six hours that begins with all objects
// (sendInitialEvents): servers do not end a watch in this way. The watch goes on after the list. Its ADDED events are
// pages, up to the first other event; from there on all are Events. The bookmark annotated k8s.io/initial-events-end
// ends the list. If the watch breaks, or is silent for ten minutes, pages are requested again. For the rest of the run
// no list is made by a watch if the server refuses the parameters (400, 422) or ignores them (ErrNoInitialEvents,
// ErrSlowInitialEvents). None is ever made if the ListerWatcher has an IsWatchListSemanticsUnSupported that returns
// true.
//
// The limits are kept for the run. So at most two pages of 16 MiB are in memory, more only where a page's objects are
// larger than those of the page before.
//
// # Lists by metadata
//
// With Options.ListMetadata, and if Options.MetadataPays, a relist for ReasonExpired, ReasonStore or ReasonListOnly
// requests pages by metadata. Objects that the sink holds in the listed state (Sink.Known) are not fetched. The others
// are fetched one by one, each by a list with its name as a field selector, before the next page is requested. If they
// are more than a quarter of a page, whole objects are requested instead, for that page and those after it. A fetched
// object may be newer than the list, or gone; so the watch is folded in from the first page on, even if there is no
// second, and the list ends when it has reached everything that was fetched. A failed fetch is repeated like a page,
// and the list does not end without it. If the server refuses metadata, or returns another object than was asked for,
// whole objects are listed for the rest of the run.
//
// # Many reflectors, one server
//
// Reflectors that share an Options.Limiter connect, eight at a time, and list, two at a time, in the order in which
// they ask; a reflector whose last request has failed waits behind the others. A slot does not count while its request
// has had no byte of an answer for 250 ms, so that a resource that hangs, because its conversion webhook does, holds up
// no other; at most 64 slots of each kind do not count. A slot to connect is given back when the server has accepted
// the watch, or answered the first page. A slot to list is given back at the end of the list, while a page waits to be
// repeated, and while the sink has not accepted a page for ten seconds. Both are given back while a call is overdue. A
// reflector that waits for a slot while the link is down is not live.
//
// The link is down if a request has no answer (no Status, or a 502, 503 or 504), and no other reflector got one
// meanwhile. The first wait is each reflector's own. From the second failure on there is one back-off for all, with the
// same bounds: one of them tries, in turn, and another after ten seconds if that one hangs. Any answer to any of them
// ends it for all. So an outage costs a process what it costs one reflector, and 300 watches that break together are
// one failure. An error that the server answers concerns only the reflector that gets it.
//
// After a 410, and if the resource cannot be watched, a list waits for a random time up to Options.RelistSpread, if the
// sink holds objects to serve.
//
// # Strays
//
// An object of another type than the expected, or that Options.Admit refuses, means that the ListerWatcher does not
// list what the sink holds, and that some of that may be missing. So from the first stray on, until a list without
// strays has ended, the sink is given no resourceVersion: the next start resumes from before it, or lists. (Strays by
// their Go type are excepted, since a program with another type does not resume.) A list of strays only is an error and
// is aborted, because it says nothing about the objects held.
//
// # Shards
//
// With Options.Shard the ListerWatcher requests one shard of a resource (KEP-5866). A server that does not know the
// selector, or whose feature gate is off, sends everything and does not say so. So the reflector applies the selector
// to every object and event, deletions included, and leaves out objects of other shards; Status.Unsharded says that
// they come. Their events advance the reflector, and the sink with the next bookmark. An object that is deleted and
// created again has another UID and may move to another shard: its deletion comes here, and its addition there.
//
// A list that has only objects of other shards is that of an empty shard, on a server that ignores the selector. But if
// there are so many that some of them should be of this shard, the ListerWatcher requests another shard. Then the list
// is aborted like one of strays (ErrStrays).
//
// # resourceVersions that cannot be compared
//
// Some aggregated APIs have them. They are never delivered: the sink gets "", and every start lists. Within a run a
// watch resumes from the resourceVersion of the last event, as in client-go, so that no older state follows a newer
// one. If the list has no resourceVersion, each reconnect lists.
//
// # Ownership
//
// Only Run's goroutine calls the sink, and events keep their order. It owns the other goroutines (one for a page, or
// for the initial events of a watch, one for a watch that is being opened) and waits for them. A panic of a
// ListerWatcher is handled as in client-go: the process ends, or, with utilruntime.ReallyCrash off, the call is
// repeated.
//
// A call of a ListerWatcher must return when its context ends, which it does after 90 s at the latest (later over a
// thin link: see Relist). A call that has not returned five seconds after that is overdue: Status.Err and
// Options.OnError (once for each call) say for how long. The reflector waits for it until Run's own context has ended,
// because other calls would only pile up. Five seconds after that it abandons the call and drops its result.
// Options.Verify and Options.Compare are bounded likewise, but abandoned as soon as they are overdue; while five calls
// of one of them have not returned, it is not called. A watch has five seconds to end after its Stop was called,
// whether or not Stop returns.
//
// A method of the sink that blocks stops the reading of the watch: the server waits, and at last closes it.
package reflector
