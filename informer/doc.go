// Package informer is a cache.SharedIndexInformer of client-go whose cache is a
// [store.Store]. It lists once; after that every start resumes the watch from
// what is on disk.
//
// Open a store, call [New], register handlers, and run it:
//
//	st, err := store.Open("larder.db", store.Options{})
//	client := clientset.CoreV1().RESTClient()
//	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "web"}
//	inf, err := informer.New(requests.ListWatch(client, id), &corev1.Pod{}, informer.Options{
//		Store:         st,
//		Identity:      id,
//		ClusterID:     requests.KubeSystemUID(client),
//		OpenAPIHash:   requests.OpenAPIHash(client, corev1.SchemeGroupVersion),
//	})
//	inf.AddEventHandler(handler)
//	inf.RunWithContext(ctx) // blocks
//	st.Close()
//
// [Run] does the first and the last of this for a program with any number of informers and factories.
//
// Identity must say what the ListerWatcher lists: Namespace, LabelSelector, FieldSelector and ShardSelector must be
// those of its requests, as they are with [requests.ListWatch]. [requests.ClientListWatch] takes the selectors from it,
// and the namespace is that of the client, real or fake. A ListerWatcher cannot be asked, and what one has listed would
// be served as what another lists. Objects outside the namespace, without the labels, or of another type than the
// example are therefore not stored, counted in Status.Reflector.Skipped, and Status.Err says so until a list has none;
// until then nothing new can be resumed from, so the next start lists. A list of nothing else is thrown away and tried
// again: what was stored stays. A wrong field selector cannot be noticed, and a wrong shard selector not always (see
// Shards).
//
// ClusterID and OpenAPIHash are what tells another cluster on the same address, and a changed schema; without them such
// a change is not noticed, nor is a restored server that has overtaken us if the ListerWatcher overwrites the field
// selector (cache.NewListWatchFromClient does). Status.Unguarded says which of these hold. The client's user needs list
// and watch on the resource, get on the namespace kube-system, and the discovery that every user has.
//
// In the informer factories that are generated with a clientset, give InformerFor a function that calls New, and
// returns [Refused] with its error; see the example of Refused.
//
// New opens the collection: what is stored can be read from then on, before
// Run and with no API server. Listers, factories and controller-runtime take an
// Informer as it is.
//
// GetIndexer and listers read as client-go's do: List(selector) gets all objects, and then selects. With a Residency
// other than All that decodes them all, so ask Informer.Reader there: by namespace, labels and fields (query.Query), or
// page by page, it decodes only what it returns (package store says for which codecs). [Of] finds the Informer in what
// a factory returns.
//
// # What handlers are told
//
// Each handler has a goroutine and a queue of its own. It gets calls in the order of the watch stream, one at a time,
// and none before the change can be read from the indexer. A handler that takes its time, or never returns, holds up
// nothing but itself.
//
//   - At a start with data on disk, first OnAdd(obj, true) for every stored object, in key order. Then what has
//     changed since: as single events if the server still has the history, else as the difference that a list shows.
//   - An object that vanished: OnDelete with the object of the DELETED event if there was one, else with a
//     cache.DeletedFinalStateUnknown that carries the key and the last stored state (nil if that was lost to damage).
//   - A cold start: OnAdd(obj, true), page by page as the list comes.
//   - A list that was repeated tells only what differs: deletes first. Where that is too much to be held in memory (see
//     package store), a part of it is stored and told, and then the next. client-go also repeats OnUpdate for every
//     unchanged object.
//   - isInInitialList is true until the informer has synced.
//   - Updates that keep the resourceVersion reach only handlers that are resyncing, as in client-go, but for those of a
//     list that writes every body anew: there the body has changed.
//   - A handler that registers while the informer runs gets OnAdd(obj, true) for what is stored at that moment,
//     and every change after it; nothing twice, nothing left out.
//
// Objects are shared and must not be modified.
//
// # Handlers that are behind
//
// While fewer than 1,024 calls are pending, a handler is told of every event. From there on, updates of one object that
// follow each other become one: OnUpdate with the first old state and the last new one, in the place of the first.
// Nothing else changes: additions and deletions are all told, an addition keeps isInInitialList, a deletion and the
// addition after it stay two calls, an update after a pending addition stays a call of its own, and the order of one
// object's calls holds. Calls that were pending below 1,024 stay as they are. Resyncs merge likewise, and hide no
// change. So what is pending is bounded by 1,024, two calls for each object and three for each deletion that was not
// told yet (the deletion and what it follows), however long a handler sleeps.
//
// Status.Handlers, and with it package metrics, has the number of pending calls of each handler and how many of its
// updates were merged. A handler to which an event comes at 1,024 or more is named in the log (that of
// HandlerOptions.Logger), at most once in ten minutes, and again when it has caught up: nothing is pending and the last
// call has returned. Neither stored objects that are replayed nor resyncs are such events.
//
// # Replay
//
// A handler is told of the stored objects first, OnAdd(…, true) in key order, whether it was there before the start or
// comes later, and then of everything that has changed since, deletes included. The objects are read in pages of up to
// 500, the next one when the calls of the last have been made, so a slow handler holds a page and what changes
// meanwhile, and not the collection; it holds up nobody. Handlers that are equally far share what has been decoded.
//
// # Durable handlers
//
// Informer.Durable has handlers that are registered under a name and keep their place over restarts: each is told of
// what has changed since its last acknowledged change, deletes too, at least once, and of nothing else. See package
// informer/durable. Status.Durable says how far each is, what fails, and whether it has stalled.
//
// # HasSynced
//
// With [Resumed], the default, HasSynced is true once the server has accepted the resume and everything it had then has
// been stored and queued for the handlers, or a list has been. With [Disk] it is true as soon as the handlers have the
// first page of the stored state; if no list was ever complete, it waits for one. With Resumed and ListMetadata a start
// compares what is stored, up to 10,000 objects, with the server's metadata: if all UIDs and resourceVersions are
// equal, HasSynced waits for no bookmark. In an audit log that is a list with timeoutSeconds=1. A registration has
// synced when its handler has returned from every call up to there: all stored objects, updates and deletes included.
//
// # Where data come from
//
// Status.Source is None until a list is complete, Live while the watch is open and everything that came over it has
// been applied, and FromDisk otherwise: from the start, until the server has confirmed that nothing was missed, while
// the connection is lost, while a list replaces what is held, while the store fails, and while something is missing
// that it has lost. The first list makes it FromDisk for the moment until its watch is open. SubscribeSource tells of
// each change; to follow all informers of a factory or a manager, subscribe in Observer.InformerMade.
//
// # Lists
//
// A list comes in pages: while one is transformed and written the next is fetched, and no other is held. Package
// reflector's documentation says how large. Readers see a repeated list at its end: in one step, unless what it changes
// is more than one transaction takes (package store).
//
// API servers compress lists if the client asks for it, as client-go's do unless rest.Config.DisableCompression is set,
// and never compress watches. client-go's typed clients speak JSON unless rest.Config.ContentType is
// application/vnd.kubernetes.protobuf: for built-in types set it.
//
// # Shards
//
// Where one replica cannot hold a resource, N of them hold N disjoint stores: Identity.ShardSelector says which shard
// an informer is of (entry.ShardSelector makes one), and the API server sends that shard only (KEP-5866, alpha in 1.36:
// feature gate ShardedListAndWatch, off by default). A server without the gate ignores the selector. Then the informer
// leaves out what is of other shards: it holds the same, but its traffic is that of the whole resource;
// Status.Unguarded and Status.Reflector.Unsharded say so. A list of other shards' objects only is refused as one of
// another namespace is, if it has so many objects that some would be of this shard (by UID).
//
// Another range is another Identity, so another collection: it is listed once, and nothing is taken over from the old
// one, whose resourceVersion says nothing about the new range. The old one stays in the file until
// store.Options.ForgetAfter has passed; when the new informer has synced, Store.Drop frees its space at once. While
// ranges move, two replicas may hold an object, or none may: who acts on objects once only has to see to that. An
// object that is deleted and created again has another UID, and may be in another shard then: OnDelete comes here and
// OnAdd there, in no order.
//
// # What is stored, and when
//
// What is there of the stream, up to a bound, is applied to the store in one step together with the resourceVersion
// that covers it, and the store commits it within a second (store.Options.CommitInterval). So after a crash the file is
// the state after some prefix of the stream, and the server sends the rest again: handlers then hear once more of
// changes that they had been told of. When Run returns, everything is committed. Options.Residency says which objects
// stay decoded in memory: all of them, unless it is set. A transform set with SetTransform is applied before storage.
// An object that it refuses, or that cannot be encoded or indexed, is reported, counted in Status.Skipped and left
// out; its previous state, if one is stored, stays until the next change or delete of it. What was left out is recorded
// in the file with the resourceVersion that passes it, and Status.LeftOut names it, until it is stored or deleted: the
// next start looks it up by name before it watches, so that a program that has been mended lacks nothing; where it is
// more than store.MaxLeftOut objects, or the server refuses the look-ups, everything is listed
// (reflector.ReasonLeftOut). If the transform refuses the object of a delete too, handlers get the stored state in a
// cache.DeletedFinalStateUnknown, and nothing where none is stored.
//
// What the contents depend on besides the objects (cluster, codec, Go types, version of the transform, OpenAPI schema)
// is compared with what they were stored under. A difference does not hide them: they are served, Status.Rewriting says
// why they will be replaced, and a list writes every body anew. It is made before HasSynced (with Resumed), for a
// changed OpenAPI hash within ten minutes after. Handlers are told the difference. What was unknown when the contents
// were listed, such as a cluster id that could not be read, is filled in by the next list.
//
// A store is for one cluster. An informer with a ClusterID whose cluster is not that of another running one on the same
// store, whatever they hold, neither lists nor resumes: Status.Err, the log and the watch error handler have
// store.ErrOtherCluster. It tries again, and goes on once the other one has ended. A cluster that is exchanged behind
// its address is no such case: contents from another cluster than the one that is there now are replaced, as above,
// whichever informer notices it first.
//
// Secrets are kept in memory only, unless the store has keys (store.Options.Encryption), so that they are sealed in its
// file, or Options.PersistSecrets is set.
//
// # Many informers, and many programs
//
// The informers of a store, those in memory too if they are given the Store, share the way to the server: while it is
// away one of them tries, in turn, with one back-off for all; when it is back eight connect and two list at a time. So
// an outage costs a program what it costs one informer, and what is held of lists is four pages, however many informers
// there are. [requests.NewSchemas] reads the hashes for OpenAPIHash once for all. A connection takes about ten small
// requests, and a list a request for each 2,000 objects: a rest.Config with client-go's default of five requests a
// second makes 300 informers wait for ten minutes; set QPS.
//
// A program cannot know how many others there are. That they do not come back as one is left to the back-off, which is
// random; how long the lists of a fleet may take after a lost history is for the fleet's operator to say, by
// Options.RelistSpread. docs/fleet.md has figures.
//
// # A rolling update
//
// Two processes cannot write one file: the new one waits until the old one has ended. Let a Deployment end the old one
// first (strategy Recreate, or RollingUpdate with maxSurge 0 and maxUnavailable 1), and wait for the file with
// store.OpenContext, or with store.Options.LockTimeout as long as the old one may take to end. A program that must be
// ready before that sets Options.InMemory, lists at each start and keeps nothing.
//
// # Audits
//
// What no event has told, no watch brings back: a proxy that has swallowed events, a server that was restored from a
// backup and has overtaken the informer in a way that no guard sees, a record that the file has lost. (An event that
// cannot follow what is stored shows it: a MODIFIED or DELETED of an object that is not stored, or one about another
// object under the same key. Then everything is listed, for reflector.ReasonRewound, at most once on a connection; not
// where that object was left out, or more were than Info.LeftOut names.) Informer.Audit, or Options.AuditEvery,
// compares the UID and resourceVersion of every object with the server's, by lists of metadata
// ([requests.ListMetadata]) at a gentle rate, and has the file verified: see package informer/audit. If something
// differs, everything is listed, and bodies are compared. Handlers are told the difference, a delete with a
// cache.DeletedFinalStateUnknown. Status.Incidents has the cause, keys and resourceVersions, package metrics counts
// them, and the log has a line. A body that changes under its resourceVersion (a new default of a CRD) an audit does
// not see; Options.OpenAPIHash is for that.
//
// # Repair
//
// There is one way: what is wrong in a collection is listed again, and bodies are compared, as bytes first; an object
// that is the same stays as it is stored, and no handler hears of it. So it is after damage, after what an audit has
// found, after the server was rewound or is another one, and when codec, transform or schema have changed. Why the list
// is due is stored, so a process that ends before it leaves the next one to make it.
//
// # When a function of the user does not return
//
// A request has 90 s, and more where the link turns out to need it (see package reflector). If one has not returned
// five seconds after its context has ended, Status.Err and the watch error handler (once for each) say so, with an
// error that wraps reflector.ErrOverdue; it is waited for until the end of the run, and no longer than five seconds
// after that. Of Options.ClusterID, OpenAPIHash, Lookup and a watch's Stop, calls that do not return in time are left
// to themselves, and what they were for is tried again or done without; while five calls of one function have not
// returned, it is not called again.
//
// # When the store fails
//
// The commit is tried again, with back-off, for as long as it takes. Changes are applied in memory meanwhile, until 64
// MiB are waiting, of which each informer on the file has a share (a disk that hangs delays a busy informer by five
// seconds before that); then reads are served from the last good state, the queue fills, and the reflector stops
// reading the watch. Status.Err, the log (once) and the watch error handler (once) tell. If something is damaged, or
// the outcome of a write is unknown, the store is rebuilt from what can be read, and what was lost is listed again;
// objects that were deleted meanwhile come as OnDelete. A change whose outcome was unknown is told again as OnUpdate if
// it turns out that it had been stored; if that was a write of a list, every object is told again, as OnUpdate or
// OnAdd, by the list that replaces it. Other informers on the file notice with their next event or bookmark that the
// rebuild has lost objects of theirs, and list too; an object that was lost so and is no longer at the server then
// vanishes without OnDelete. Before the first sync HasSynced waits for that list. A store that is closed ends the run.
//
// A commit that does not return is not called off. While it lasts changes are applied in memory and told, as above, and
// after ten seconds Status.Err and the watch error handler (once) have store.ErrSlowDisk. What has to write itself
// waits for it: the end of a list, and whoever registers a handler meanwhile on the informer that is taking one in.
//
// # Ownership and shutdown
//
// The Informer owns its goroutines; the caller owns the Store and closes it after the run. When Run returns, nothing of
// the informer is running, with one exception: a write that the disk does not finish is waited for no longer than five
// seconds after the end of Run's context, if it is the informer's own, and ten when the collection is given back. Then
// it is logged and left to itself, and nobody can open the collection before it has returned. So a run ends within 15 s
// whatever the disk does, and the store's Close within ten more. It ends in this order: the loop and what feeds it, the
// collection, which another informer can have from then on (New waits for it up to half a minute if the context has
// ended or Close was called, and refuses at once to share it with an informer that goes on), the handlers (each after
// the call that it is making). Changes that were received but not committed are dropped, as the server will send them
// again. Calls that were committed but not made are dropped too, as in client-go: an added or updated object is
// replayed by OnAdd at the next start, a delete is not. Handlers that must not miss one have to compare with the
// replay. An informer runs once; its store stays readable after that, and a new informer can be made on the same
// collection. One that is not run after all is to be closed.
//
// Subscribers to the source are called by one goroutine of the run, in the order of the changes, the last of which is
// about its end; a call that has begun is waited for. Options.Observer is told of commits and of handlers' calls by the
// goroutines that make them, under no lock.
//
// Index functions run while a batch is committed and must not call the informer. Handlers, the transform, the watch
// error handler and the sinks of Options.Logger and HandlerOptions.Logger may: nothing is logged under a lock. The sink
// of store.Options.Logger may call Status. The watch error handler may be called by two goroutines at a time: by one
// for the connection, by another for the store.
package informer
