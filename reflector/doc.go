// Package reflector lists and watches one resource into a Sink. It resumes where the sink stands, and
// lists only when the server has lost the history since, or is not the server it was.
//
// Start with New and Run; implement Sink. A Reflector is for one Run.
//
// # States
//
//	Restore ──resumable──► Verify ──behind──► Drain ──drained──► Watch
//	   │                    │  ▲ └──level──────┼──────────────────►│ ▲
//	   │                    │  └───────────────┴──ended────────────┘ │
//	   └──mustList──────────┴───────────► Relist ────────listed──────┘
//
//	Relist ──resumable──► Verify, if a first list had to wait for the server and the sink holds something by now
//	any ──failed──► Backoff ──waited──► Verify, or Relist if a list is due
//	any ──denied──► Degraded ─waited──► the same
//	any ──mustList─► Relist (after a Backoff if there was a list less than two minutes ago, but for Reflector.Relist with another reason than Rewound; and for Options.RelistSpread)
//	any ──stop────► Stopped
//
// The transitions are the pure function next (state.go); each state is a method of session.
//
// # Verify and the guards: what is asked at every connect
//
// In this order: Options.Verify; the server's resourceVersion, by a list with limit=1; the watch; and, once that has
// been accepted and before anything of it is delivered, the identities of up to five of the newest objects held. Where
// Options.Same is set, a run that resumes begins with the watch, and then asks Options.Verify and Same at once (see
// below).
//
//   - Our resourceVersion above the server's: relist, ReasonAhead. (A watch from the future is accepted
//     and silently sends nothing.)
//   - An object that is another one, or in another state, at a resourceVersion that we have passed: relist,
//     ReasonRewound.
//   - An object that is gone, or newer than our resourceVersion: an event for it must come before the watch has reached
//     the resourceVersion of a second probe; else relist, ReasonRewound.
//   - An event that cannot follow what is held: about an object with another UID than that under its key, or a MODIFIED
//     or DELETED for a key without an object. The reflector sees it of the newest objects and of those awaited, and
//     does not deliver it; the sink, which holds them all, says so of the others (Reflector.Contradicted). Either is a
//     relist, ReasonRewound, once until the connection is lost, and soon after another list only after a wait: a server
//     that is merely odd is not listed in a circle.
//
// The look-ups follow the watch, since then their order proves something: whoever answers them is the server that has
// accepted the watch, or a later one, and then the watch breaks. So it does not matter that client-go makes requests
// again, or that they wait for a connection, while the server is replaced. A watch that breaks meanwhile, or an error
// of a request, begins all of it anew.
//
// Five are looked up at the start and after every watch that ended with an error or before its time (an API server ends
// its watches so when it is stopped or its storage is replaced), or if more than a second passed before the next one
// was accepted. A connection that is cut looks like one that the server ends, so only a watch that ended after its own
// time-out, while we were waiting for an event, counts as ended in order. After that (every five to ten minutes) one is
// looked up, and after a drain none: a routine reconnect costs two requests of one object, and the watch. What a lost
// connection left unexplained is looked up first at the next.
//
// A look-up is a list with a field selector on name and namespace, unless Options.Lookup is set. If the answer is
// another object (a ListerWatcher that overwrites the selector), or the server refuses the selector, look-ups are given
// up for this run; if one object is too large to come over the link before the server ends the answer, it is not looked
// up any more. A probe whose one object is so lists one that is not there.
//
// The look-ups miss a server that was restored from a backup and has overtaken us, if in the lost part of history
// nothing happened to the objects that are looked up, or each was changed again since; or if the process dies after the
// new history's events have pushed the proof out of the newest objects, but before the drain is over. Then what was
// created in the lost part remains, and what was deleted in it is missing, until the first event about one of these
// objects, which cannot follow what is held. If none comes, and for what was merely changed in the lost part, it takes
// somebody who compares everything (the informer's audit) and asks Relist. Nor is seen a change without a new
// resourceVersion (a new default of a CRD).
//
// # Drained
//
// Sink.Synced is called when everything the server had at the probe has been delivered: at once if the resourceVersions
// are equal and the watch has been accepted; otherwise when an event or bookmark at or above the probe's has come and
// the look-ups are explained. For that the first watch asks for a time-out of three seconds, since the server sends a
// bookmark two seconds before the end; if it ends without, another follows, with a new probe but the old aim (a busy
// server would never be reached). Only if a server never sends bookmarks, and other resources move its resourceVersion,
// nothing can prove it: then four such watches in a row that lived their whole time and were silent have to do.
//
// Where Options.Same is set, the first watch of a run that resumes asks that instead, once it has been accepted, and
// beside it Options.Verify, so that a start is two round trips: if the server has exactly what is held, by UID and
// resourceVersion, nothing was missed, and Synced is called without look-ups and without a drain. The watch goes on,
// and its bookmark moves the sink on. Any other answer is what a probe is: look-ups follow, and its resourceVersion is
// the aim of the drain. Since the watch comes first, the page is of the server that has accepted it, or of a later one,
// and then the watch breaks, which starts all the guards again. What left-out objects are at the server nobody holds,
// so a run that begins with some does not ask. A rewound server that has given an object the same resourceVersion
// again, with another body, looks the same, as it does to the look-ups and to an audit.
//
// # Watch
//
// Every error (closed, reset, refused, DNS, time-out, 401, 429, 5xx, an ERROR event, a watch that ends right after it
// began) leads to another watch at the newest delivered resourceVersion after a wait; never to a list. 403, 404 and 405
// show as Degraded. A list is made on 410, on "resource version too large", on a failed guard, on Options.Verify's or
// Relist's word, and for nothing else. The wait is 800 ms, doubled up to 30 s, with full jitter, on top of what the
// server asks for (Retry-After), and short again after a watch has lived two minutes. A watch that ends in order at its
// own time-out is followed by another at once, one that lived and ends before that within 800 ms: whoever ended it has
// ended others, too.
//
// A watch that is silent for two and a half minutes (bookmarks come once a minute) is checked by a probe: if the
// resourceVersion is ours, nothing was missed and it stays. Otherwise it is closed and opened again; that is an error
// if the watch had sent bookmarks. So a quiet resource of a server without bookmarks costs a request every two and a
// half minutes, and a dead connection is found within that time whether or not the server sends bookmarks.
//
// Over a thin link a large event looks like a dead connection, and a watch that is opened again is sent it from its
// first byte. So after a watch that was closed for its silence the next one from the same resourceVersion may be silent
// for five minutes, and those after it for ten (a drain too, which otherwise has half a minute).
//
// # Relist
//
// Pages at resourceVersion "" go to the sink one by one; one more is fetched meanwhile. If there is more than one, a
// watch from the first page's resourceVersion is folded in (see list), so that the history cannot run out under a slow
// list, and it goes on after the list. Transport errors ask for the same page again. An expired continue token is
// exchanged for the one that the server offers; the list then ends when the folded watch has reached the last page. If
// that cannot be, the list is aborted and begun again. An error of the folded watch is told like that of any other.
//
// A page has as many objects as come over the link in their time and are not too many bytes. The first of a run are
// 500, since nothing is known of them (500 of 100 KB are 50 MB, 2,000 would be 200 MB); then twice as many as in the
// last page are asked for, up to Options.PageSize. The two small pages at the start are 2 % of what a list of 100,000
// pods costs the server, 37 ms of its CPU each; all pages of 500 instead of 2,000 would cost it 2.8 times as much.
// Otherwise:
//
//	a page timed out (a 504 too), or its     half as many, down to two, with the same continue token; if that took 20 s or longer and happens again, a fourth,
//	answer broke off                         then an eighth. Larger ones are tried again after one page; if that is in vain after two, then after four, up to 32
//	it took 20 s or longer                   the same number: API servers cut what takes a minute
//	its objects are large                    as many as make 16 MiB, by the mean of up to 64 of them as they are sent, but for compression
//	it was refused (any other status), or    the same number
//	put off for all of its time (client-go's
//	REST client heeds Retry-After meanwhile,
//	ErrPutOff), or the server could not be
//	reached
//
// What cannot be asked for in smaller parts (a page of two, a probe, a look-up) and had not come after its 90 s has
// twice as much time when it is asked for again, up to twelve minutes. But API servers end an answer after a minute. If
// the smallest page was ended twice in a row after 20 s or longer, and not for want of our patience, or with all of it,
// the list is begun again as one watch of up to six hours that begins with all objects (sendInitialEvents), since a
// watch is not ended so; the watch then goes on. Its ADDED events are pages up to the first other event; from there on
// all are Events. The bookmark annotated k8s.io/initial-events-end ends the list. If that breaks, or is silent for ten
// minutes, pages are asked for again. For the rest of the run no list is asked for by a watch if the server refuses the
// parameters (400, 422) or does not heed them (ErrNoInitialEvents, ErrSlowInitialEvents); nor ever, if the
// ListerWatcher has an IsWatchListSemanticsUnSupported that says so.
//
// What was found out is kept for the run. So what is held of a list is bounded by 16 MiB, twice, but for a page whose
// objects are larger than those of the page before.
//
// # Lists by metadata
//
// With Options.ListMetadata, and where Options.MetadataPays, a relist for ReasonExpired or ReasonStore takes pages by
// metadata. What the sink holds in the listed state (Sink.Known) is listed by that. The others are fetched one by one,
// each by a list with its name as a field selector, before the next page is asked for; where they are more than a
// quarter of a page, that page is asked for again whole, and so are the pages after it. An object that was fetched may
// be newer than the list, or gone: so the watch is folded in from the first page on, also if there is no second, and
// the list ends where it has reached all that was fetched. Failures are those of pages: what could not be fetched is
// asked for again, and the list does not end without it. Where metadata are refused, or another object comes than was
// asked for, whole objects are listed for the rest of the run.
//
// # Many reflectors, one server
//
// Those that share an Options.Limiter connect, eight at a time, and list, two at a time, in the order in which they
// come. A slot to connect is given back when the server has accepted the watch, or answered the first page; a slot to
// list at the end, while a page waits to be asked for again, and while the sink has not taken in what it was given for
// ten seconds. Both are given back while a call is overdue. Who waits for a slot while the link is down is not live.
//
// When no answer comes (nothing that is a Status, or a 502, 503 or 504), and none came to the others meanwhile, the
// link is down. The first wait is each reflector's own; from the second failure on there is one back-off for all, with
// the same terms: one of them tries, in turn, and another after ten seconds if that one hangs. Whatever any of them
// hears ends it for all. So an outage costs a process what it costs one reflector, and 300 watches that break together
// are one failure. An answer never concerns the others.
//
// After a 410 a list waits for up to Options.RelistSpread, if there is something to serve.
//
// # Strays
//
// An object of another type than the expected, or that Options.Admit refuses, means that the ListerWatcher does not
// list what the sink holds, and that what it should list may be missing. So from the first stray on, to the end of a
// list without any, the sink is given no resourceVersion: the next start resumes from before it, or lists. (But for
// strays by their Go type: who changes that does not resume.) A list of strays only is an error, and is aborted: it
// says nothing about what is held.
//
// # Shards
//
// With Options.Shard the ListerWatcher asks for one shard of a resource (KEP-5866). A server that does not know the
// selector, or whose feature gate is off, sends everything, and says nothing. So every object and event is held against
// the selector here too, deletions as well, and what is of another shard is left out: the sink holds the shard and no
// more, whatever the server does, and Status.Unsharded says that more comes. Such events move the reflector on, and the
// sink with the next bookmark, or before it is told of an examination. An object that is deleted and created again has
// another UID, and may move to another shard: its deletion comes here, and its addition there.
//
// A list with objects of other shards only is that of a shard that is empty, on a server that ignores the selector; but
// if there are so many that some of ours would be among them, the ListerWatcher asks for another shard. Then the list
// is aborted, as one of strays (ErrStrays).
//
// # resourceVersions that cannot be compared
//
// Some aggregated APIs use such. They are never delivered: the sink gets "", and every start lists. Within
// a run the watch is resumed with what the list said, unless it said nothing: then each reconnect lists.
//
// # Ownership
//
// Run's goroutine is the only one that calls the sink, and events keep their order. It owns the others (one for a page,
// or for the initial events of a watch, one for a watch that is being opened) and waits for them. If a ListerWatcher
// panics, it is as in client-go: the process ends, or, with utilruntime.ReallyCrash off, it is tried again.
//
// A call of a ListerWatcher must return when its context ends, which it does after 90 s if not before (later, over a
// thin link: see Relist). One that goes on for five seconds after that is overdue: Status.Err and Options.OnError (once
// for each call) say for how long it has not returned. It is waited for until Run's own context has ended, since more
// of its kind would only pile up. Five seconds after that it is left to itself, and its result thrown away.
// Options.Verify and Options.Lookup are bounded likewise, but left to themselves at once when they are overdue, and
// tried again; while five calls of one have not returned, it is not called. A watch has five seconds to end after its
// Stop was called, whether or not Stop returns.
//
// A method of the sink that blocks stops the reading of the watch: the server waits, and at last closes it.
package reflector
