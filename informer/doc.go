// Package informer is a cache.SharedIndexInformer of client-go whose cache is a
// [store.Store]. It lists once; after that every start resumes the watch from
// the stored state.
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
// [Run] opens and closes the store for a program with any number of informers and factories.
//
// Identity must describe the ListerWatcher's objects: Namespace, LabelSelector, FieldSelector and ShardSelector must
// be those of its requests, as they are with [requests.ListWatch]. [requests.ClientListWatch] adds the selectors of an
// Identity to a client's requests; the namespace is the client's. The informer cannot ask a ListerWatcher for its
// scope. So it does not store objects outside the namespace, without the labels, or of another type than the example.
// It counts them in Status.Reflector.Skipped, and Status.Err reports them until a list has none. Until then no new
// resourceVersion is stored, and the next start lists. A list of such objects only is discarded and retried, and the
// stored objects stay. A wrong field selector is not noticed, and a wrong shard selector not always (see Shards).
//
// ClusterID detects another cluster at the same address, and OpenAPIHash a changed schema. Without them the change
// is not noticed. A restored server that has overtaken the stored resourceVersion is not noticed either if the
// ListerWatcher overwrites the field selector, as cache.NewListWatchFromClient does. Status.Unguarded says
// which changes would not be noticed. The client's user needs list and watch on the resource, get on the namespace
// kube-system, and the discovery that every user has.
//
// A ListerWatcher of requests.ListWatch also tells its requests, and the informer makes them itself. It stores objects
// as the server sends them, and decodes only objects that a handler, an index function, a transform or a reader asks
// for (package reflector/wire). The factories and the adapter for controller-runtime have such ListerWatchers where
// they can. Options.ClientDecodes leaves all of that to the ListerWatcher. Status.Undecoded says which is the case.
//
// In the informer factories that are generated with a clientset, pass InformerFor a function that calls New and, if
// that fails, returns [Refused] with the error; see the example of Refused.
//
// New opens the collection: its objects can be read from then on, before Run and with no API server. Listers, factories
// and controller-runtime accept an Informer.
//
// GetIndexer and listers read as client-go's do: List(selector) gets all objects and then selects. With another
// Residency than All that decodes all of them. Use Informer.Reader there: it reads by namespace, labels and fields
// (query.Query), or page by page, and decodes only the returned objects (package store says for which codecs). [Of]
// returns the Informer behind an informer of a factory.
//
// # Handlers
//
// Each handler has a goroutine and a queue of its own. Its calls are in the order of the watch stream, one at a time,
// and each change can be read from the indexer before the call. A handler that is slow, or never returns, delays only
// itself.
//
//   - At a start with data on disk: OnAdd(obj, true) for every stored object, in key order. Then the changes
//     since then: as single events if the server still has the history, otherwise as the difference to a list.
//   - An object that vanished: OnDelete with the object of the DELETED event if there was one, otherwise with a
//     cache.DeletedFinalStateUnknown that has the key and the last stored state (nil if that was lost to damage).
//   - A cold start: OnAdd(obj, true), page by page as the list comes.
//   - A repeated list: only the differences, deletes first. If they are too many to be held in memory (see package
//     store), a part of them is stored and delivered, and then the next. client-go also repeats OnUpdate for unchanged
//     objects.
//   - isInInitialList is true until the informer has synced.
//   - Updates that keep the resourceVersion reach only handlers that are resyncing, as in client-go. Updates from a
//     list reach all handlers, because the body has changed.
//   - A handler that registers while the informer runs gets OnAdd(obj, true) for each object stored at that moment, and
//     every change after it, each once.
//
// Objects are shared and must not be modified.
//
// # Replay
//
// The stored objects are read in pages of up to 500, and the next page when the calls of the last have been made. So a
// slow handler holds a page, and the changes that come meanwhile, but not the collection, and it delays no other
// handler. Handlers that are at the same page share the decoded objects.
//
// # Handlers that are behind
//
// While fewer than 1,024 calls are pending, a handler gets every event. From then on, successive updates of one object
// are merged into one OnUpdate, with the first old state and the last new one, at the place of the first. Nothing else
// changes: no addition or deletion is dropped, an addition keeps isInInitialList, a deletion and the addition after it
// stay two calls, an update after a pending addition stays a call of its own, and the calls of one object stay in
// order. Calls that were pending before stay as they are. Resyncs merge likewise, and hide no change. So at most 1,024
// calls are pending, plus two for each object and three for each deletion, however long a handler sleeps.
//
// Status.Handlers and package metrics have the number of pending calls and of merged updates of each handler. The log
// (of HandlerOptions.Logger) names a handler that gets an event at 1,024 pending calls, at most once in ten minutes,
// and again when it has caught up: nothing is pending and its last call has returned. Replays and resyncs are not
// logged.
//
// # Durable handlers
//
// Informer.Durable has handlers with a name and a cursor in the file. After a restart each is called, at least once,
// for every change since the last one that it acknowledged, deletes included, and for no other change. See package
// informer/durable. Status.Durable says how far each handler is, what fails, and whether it has stalled.
//
// # HasSynced
//
// With [Resumed], the default, HasSynced becomes true when the server has accepted the resumed watch and everything
// that it had then has been stored and queued for the handlers; or after a list. With [Disk] it becomes true when the
// handlers have the first page of the stored objects; if no list was ever complete, it waits for one. With Resumed and
// ListMetadata a start compares up to 10,000 stored objects with the server's metadata, and waits for the events of
// those that differ, not for a bookmark: that takes two requests. With more objects it takes at most seven, and about
// a second for the bookmark. After a lost connection up to 100 objects are compared so. An audit log shows a
// comparison as a list with timeoutSeconds=1. Informers that share their ClusterID, OpenAPIHash and ServerVersion
// make one request for each. A registration has synced when its handler has returned from every call for the state
// at that time: all stored objects, updates and deletes.
//
// # Where data come from
//
// Status.Source is None until a list is complete. It is Live while the watch is open and everything that came over it
// has been applied. Otherwise it is FromDisk: from the start until the server has confirmed that nothing was missed,
// while the connection is lost, while a list replaces the objects, while the store fails, and while objects are missing
// that the store has lost. The first list makes it FromDisk until its watch is open. SubscribeSource calls a function
// at each change; to follow all informers of a factory or a manager, subscribe in Observer.InformerMade.
//
// # Lists
//
// A list comes in pages: while one page is transformed and stored the next is fetched, and no other is held. Package
// reflector says how large pages are. Readers see the result of a repeated list at its end, in one step, unless the
// differences are larger than package store holds in memory.
//
// API servers compress lists if the client asks for it, as client-go's do unless rest.Config.DisableCompression is set.
// They never compress watches. client-go's typed clients use JSON unless rest.Config.ContentType is
// application/vnd.kubernetes.protobuf; set it for built-in types.
//
// # Shards
//
// If one replica cannot hold a resource, N replicas can hold N disjoint stores. Identity.ShardSelector says which shard
// an informer holds (entry.ShardSelector makes one), and the API server sends only that shard (KEP-5866, alpha in 1.36:
// feature gate ShardedListAndWatch, off by default). A server without the gate ignores the selector. Then the informer
// leaves out objects of other shards, so it holds the same, but receives the whole resource; Status.Unguarded and
// Status.Reflector.Unsharded say so. A list that has only objects of other shards, and so many that some should be of
// this one (by UID), is refused like one of another namespace.
//
// Another range is another Identity, and so another collection. It is listed once; nothing is taken from the old one,
// whose resourceVersion says nothing about the new range. The old one stays in the file until Store.Drop or Store.Prune
// frees its space, which is best called when the new informer has synced. While ranges move, two replicas may
// hold an object, or none; a program that must act on each object exactly once has to handle that. An object that is
// deleted and created again has another UID and may move to another shard: OnDelete comes here and OnAdd there, in any
// order.
//
// # Storage
//
// The changes that have come, up to a bound, are applied to the store in one step with the resourceVersion that covers
// them. The store commits them within a second (store.Options.CommitInterval). So after a crash the file is the state
// after some prefix of the stream, and the server sends the rest again: handlers then get some changes a second time.
// When Run returns, everything is committed. Options.Residency says which objects stay decoded in memory; all, by
// default.
//
// A transform set with SetTransform is applied before an object is stored; the object's namespace, name, UID and
// resourceVersion stay the server's. It needs Options.TransformVersion: without one, SetTransform and the run fail. An
// object that the transform refuses, or that cannot be encoded or indexed, is reported, counted in Status.Skipped and
// left out. Its previous state stays
// until the next change or delete of the object. Objects that were left out are recorded in the file with the
// resourceVersion that passes them, and named in Status.LeftOut, until they are stored or deleted. The next start looks
// them up by name once its watch has caught up, so that a fixed program lacks nothing. If they are more than
// entry.MaxLeftOut, the server refuses the look-ups, or it sends no bookmarks that show how far the watch has come,
// everything is listed (reflector.ReasonLeftOut). If the transform refuses the object of a DELETED event, handlers get
// the stored state in a cache.DeletedFinalStateUnknown, or no call if none is stored.
//
// The attributes of the objects (cluster, codec, Go types, version of the transform, OpenAPI schema) are stored with
// them and compared. If one differs, the objects are served, Status.Rewriting says why they will be replaced, and a
// list writes every body again: before HasSynced (with Resumed), or within ten minutes for a changed OpenAPI hash.
// Handlers get the differences. A value that was unknown at the last list, such as a cluster id that could not be read,
// is added by the next list.
//
// A store is for one cluster. An informer whose cluster, by ClusterID, differs from a running informer's on the same
// store neither lists nor resumes: Status.Err, the log and the watch error handler have store.ErrOtherCluster. It
// retries, and goes on once the other informer has ended. If the cluster behind an address is replaced, the stored
// objects are replaced as above, whichever informer notices it first.
//
// Secrets are kept in memory only, unless the store has keys (store.Options.Encryption), which seal them in its file,
// or Options.PersistSecrets is set.
//
// # Informers on one collection
//
// The components of a program may each make an informer, or a factory, for the same objects. An informer whose Identity
// and Store are those of another informer attaches to it: they share the reflector, the objects and the indexes, as the
// handlers of one informer do, so the server sees one list and one watch. In memory each informer has its own.
//
//   - Run of each begins and ends for itself. When it returns, its handlers are called no more, and its source is
//     FromDisk. Reflector and process loop go on until the last informer has ended, or was closed: an informer that is
//     made and never run keeps them. One that is made while the last one ends waits, and begins anew.
//   - Handlers, durable handlers, resync periods and the watch error handler are of each informer. A handler gets the
//     stored objects when its informer starts, and every change after that. All watch error handlers get the errors of
//     the run, and all Status.Err; client-go's default is called once. Names of durable handlers are unique in the
//     collection. Status and metrics are those of the collection, with the handlers of all; HasSynced, the source, and
//     LastSyncResourceVersion before Run are of each informer.
//   - Requests are made by the client of the first informer that was made, with its ClusterID, OpenAPIHash,
//     ServerVersion, ListMetadata, Seed, PageSize, RelistSpread and ClientDecodes: also after its end, so that an
//     informer whose user may see less gets the objects that the first one's may see. The run has the logger of the
//     first informer that ran. Each Observer is called for its own handlers, and once for a commit.
//   - The type of the example object, Codec, TransformVersion, Residency, Compression, History, SyncPolicy and
//     AuditEvery must be equal. Otherwise New fails with store.ErrCollectionOpen and names the option. Either all have
//     a transform or none: functions with the same TransformVersion count as the same. With Unversioned they must be
//     one declared function. If the transform differs, Run fails at once.
//   - Index functions of all are added to the collection. A name stands for one function: the same declared function,
//     or the same version in IndexVersions. Otherwise New and AddIndexers fail, with client-go's words.
//   - If the first informer has a ClusterID, another one that has one, too, reads its cluster's id before its handlers
//     get objects, durable ones included. If that is not the first one's cluster, they get nothing, the informer does
//     not sync, and Status.Err, the watch error handler and AddEventHandler have store.ErrOtherCluster. With the policy
//     Disk the handlers get stored objects before that.
//
// # Many informers, and many programs
//
// The informers of a store, including those in memory that have the Store in their options, share the link to the
// server. While it is down one of them tries at a time, with one back-off for all; when it is up again eight connect
// and two list at a time. So an outage costs a program as much as one informer, and at most four pages of lists are
// in memory. [requests.NewSchemas] reads the hashes for OpenAPIHash once for all. A connection takes about ten small
// requests, and a list one request per 2,000 objects. With client-go's default rest.Config of five requests a second,
// 300 informers wait for ten minutes: set QPS.
//
// A program does not know about others. The random back-off keeps them from returning at the same time.
// Options.RelistSpread is how long the lists of a fleet may take after a lost history; docs/fleet.md has figures.
//
// # A rolling update
//
// Two processes cannot write one file: the new one waits until the old one has ended. Let a Deployment end the old one
// first (strategy Recreate, or RollingUpdate with maxSurge 0 and maxUnavailable 1), and wait for the file with
// store.OpenContext, or with a store.Options.LockTimeout as long as the old process may take to end. A program that
// must be ready before that sets Options.InMemory; it lists at each start and keeps nothing.
//
// # Audits
//
// A watch does not deliver changes whose events were lost: dropped by a proxy, made by a server that was restored from
// a backup and has overtaken the informer, or missing because of a record that the file has lost. Informer.Audit and
// Options.AuditEvery find and repair such differences. An audit does not notice a body that changes under its
// resourceVersion (a new default of a CRD); Options.OpenAPIHash does.
//
// An event that contradicts the stored objects shows a restored server without an audit: a MODIFIED or DELETED of an
// object that is not stored, or an event about another object under the same key. Then everything is listed, for
// reflector.ReasonRewound, at most once per connection. Objects that were left out are excepted.
//
// # Repair
//
// A collection whose contents are wrong is listed again. Every list compares bodies and index terms with the stored
// records. The record of an unchanged object stays, and no handler is called for it. This is the only way of
// repair: after damage, after an audit's findings, for a rewound or another server, and for a changed codec, transform
// or schema. The reason is stored, so if the process ends before the list, the next one makes it.
//
// # When a user's function does not return
//
// A request has 90 s, and more if the link turns out to need it (see package reflector). If it has not returned five
// seconds after its context has ended, Status.Err and the watch error handler (once for each) have an error that wraps
// reflector.ErrOverdue. The informer waits for it until the end of the run, and five seconds more at most. Calls of
// Options.ClusterID, OpenAPIHash, and of a watch's Stop, that do not return in time are abandoned and retried, or done
// without. While five calls of one function have not returned, it is not called again.
//
// # When the store fails
//
// A failed commit is retried with back-off for as long as it takes. Changes are applied in memory meanwhile, until 64
// MiB are dirty, of which each informer on the file has a share. (A disk that hangs delays a busy informer by five
// seconds before that.) Then reads are served from the last good state, the queue fills, and the reflector stops
// reading the watch. Status.Err, the log (once) and the watch error handler (once) report it.
//
// If something is damaged, or the outcome of a write is unknown, the store is rebuilt from what can be read, and lost
// objects are listed again; objects that were deleted meanwhile come as OnDelete. A change whose outcome was unknown is
// delivered again, as OnUpdate, if it turns out to be stored. If that was a write of a list, every object is delivered
// again, as OnUpdate or OnAdd, by the list that replaces it. Other informers on the file notice lost objects of theirs
// at their next event or bookmark, and list too; an object that was lost and is no longer at the server then vanishes
// without OnDelete. Before the first sync HasSynced waits for that list. A closed store ends the run.
//
// A commit that does not return is not cancelled. Meanwhile changes are applied in memory and delivered, and after ten
// seconds Status.Err and the watch error handler (once) have store.ErrSlowDisk. The end of a list waits for the commit,
// and so does the registration of a handler while an informer stores a list.
//
// # Ownership and shutdown
//
// The Informer owns its goroutines. The caller owns the Store, and closes it after the run. When Run returns, nothing
// of the informer is running, with one exception: Run waits for a write that the disk does not finish no longer than
// five seconds after its context has ended, and ten when it closes the collection. Then the write is logged and
// abandoned, and the collection cannot be opened before it has returned. So a run ends within 15 s even if the disk
// hangs, and the store's Close within ten more.
//
// A run ends in this order: the process loop and what feeds it; the collection, which another informer can then open;
// the handlers, each after its current call. New waits up to half a minute for informers on the same collection whose
// contexts have ended or whose Close was called, and attaches to them if one goes on. Changes that were received
// and not committed are dropped, since the server sends them again. Pending calls are dropped too, as in client-go: an
// added or updated object is replayed by OnAdd at the next start, a delete is not. A handler that must not miss deletes
// compares with the replay, or is durable. An informer runs once. Its store stays readable after that, and a new
// informer can be made on the same collection. Close an informer that is never run.
//
// Subscribers to the source are called by one goroutine of the run, in the order of the changes; the last change is
// about its end. The run waits for a call that has begun. Options.Observer is called by the goroutines that commit and
// that call handlers, under no lock.
//
// Index functions run while a batch is applied, and must not call the informer. Handlers, the transform, the watch
// error handler and the sinks of Options.Logger and HandlerOptions.Logger may: nothing is logged under a lock. The sink
// of store.Options.Logger may call Status. The watch error handler may be called by two goroutines at a time: one for
// the connection, the other for the store.
package informer
