// Package informer is a cache.SharedIndexInformer of client-go whose cache is a [store.Store]. It lists once; after
// that every start resumes the watch from the stored state.
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
// [Run] opens and closes the store for a program with any number of informers and factories. docs/adopt.md has programs
// with factories, controller-runtime and generated clientsets.
//
// New opens the collection. Its objects can be read from then on: before the run, with no API server, and after the
// run. Listers, factories and controller-runtime accept an Informer; [Of] returns the Informer behind a factory's
// informer. Informer.Reader selects by namespace, labels and fields, and decodes only the objects that it returns.
//
// Options.Identity must describe the requests of the ListerWatcher. Options.ClusterID and OpenAPIHash notice another
// cluster and a changed schema; Status.Unguarded names the changes that would go unnoticed. The client's user needs
// list and watch on the resource, get on the namespace kube-system, and the discovery that every user has.
//
// # Starts
//
// The first start lists, page by page. A later start serves the stored objects, verifies the server by a few small
// requests, and resumes the watch. It lists only for the reasons of package reflector, such as lost history, or if an
// attribute of the stored objects has changed: cluster, codec, Go types, version of the transform, schema. The stored
// objects are served until that list replaces them (Status.Rewriting).
//
// Options.SyncPolicy says when HasSynced becomes true. A registration has synced when its handler has returned from
// every call for the state at that time: all stored objects, updates and deletes. Status.Source says whether readers'
// data are the server's ([Live]).
//
// # Handlers
//
// Each handler has a goroutine and a queue of its own. Its calls are in the order of the watch stream, one at a time,
// and each change can be read from the indexer before the call. A handler that is slow, or never returns, delays only
// itself.
//
//   - At a start with data on disk: OnAdd(obj, true) for every stored object, in key order. Then the changes
//     since: as single events if the server still has the history, otherwise as the difference to a list.
//   - An object that vanished: OnDelete with the object of the DELETED event if there was one, otherwise with a
//     cache.DeletedFinalStateUnknown that has the key and the last stored state (nil if that was lost to damage).
//   - A cold start: OnAdd(obj, true), page by page as the list arrives.
//   - A repeated list: only the differences, deletes first. If they are too many to be held in memory (see package
//     store), a part of them is stored and delivered, and then the next.
//   - isInInitialList is true until the informer has synced.
//   - Updates that keep the resourceVersion reach only handlers that are resyncing, as in client-go. Updates from a
//     list reach all handlers, because the content has changed.
//   - A handler that registers while the informer runs gets OnAdd(obj, true) for each object stored at that moment, and
//     every change after it, each once.
//   - A handler with 1,024 pending calls: updates of one object are merged (see AddEventHandlerWithOptions).
//
// Objects are shared and must not be modified. Durable handlers (Informer.Durable) have a name and a cursor in the
// file. After a restart each is called, at least once, for every change since the last one that it acknowledged,
// deletes included. See package informer/durable.
//
// # Storage
//
// The received changes, up to a bound, are applied to the store in one step with the resourceVersion that covers them.
// The store commits them within a second (store.Options.CommitInterval). So after a crash the file is the state after
// some prefix of the stream, and the server sends the rest again: handlers then get some changes a second time. When
// Run returns, everything is committed.
//
// Secrets are kept in memory only, unless the store has keys, which seal them in its file, or Options.PersistSecrets is
// set. An object that cannot be transformed, encoded or indexed is left out, and its previous state stays; the next
// start requests it again (Status.LeftOut).
//
// A collection whose contents are wrong is listed again. Every list of whole objects compares their contents and index
// terms with the stored records. The record of an unchanged object stays, and no handler is called for it. A list is
// the only repair: after damage, an audit's findings, a rewound or another server, a changed codec, transform or
// schema. Its reason is stored, so if the process ends before the list, the next process lists. Informer.Audit and
// Options.AuditEvery find differences that no watch corrects.
//
// If a commit fails, it is retried, and changes are applied in memory up to a bound. Then reads are served from the
// last good state, and the reflector stops reading the watch. A closed store ends the run. docs/reliability.md has the
// details.
//
// # Informers on one collection
//
// The components of a program may each make an informer, or a factory, for the same objects. An informer whose Identity
// and Store are those of another informer attaches to it: they share the reflector, the objects and the indexes, so the
// server sees one list and one watch. Informers in memory share nothing. Each informer has its own Run, handlers,
// resync period and watch error handler, HasSynced and source. The client of the first informer makes the requests,
// also after that informer's end. Options on which the objects depend must be equal, and an index name stands for one
// function in all. Otherwise New fails with store.ErrCollectionOpen, or AddIndexers with client-go's words.
// docs/adopt.md has all rules.
//
// A store is for one cluster: an informer whose cluster, by ClusterID, differs from a running informer's on the same
// store neither lists nor resumes (store.ErrOtherCluster). It retries until the other informer has ended. The informers
// of a store share a limiter: while the server is unreachable one informer tries at a time; afterwards eight connect
// and two list at a time. Two processes cannot write one file: the new one waits until the old one has ended.
//
// # Ownership and shutdown
//
// The Informer owns its goroutines. The caller owns the Store, and closes it after the run. When Run returns, nothing
// of the informer is running, with one exception: Run waits for a write that the disk does not finish no longer than
// five seconds after its context has ended, and ten when it closes the collection. Then the write is logged and
// abandoned, and the collection cannot be opened before it has returned. So a run ends within 15 s even if the disk or
// a request hangs, and the store's Close within ten more.
//
// A run ends in this order: the reflector and the process loop; the collection, which another informer can then open;
// the handlers, each after its current call. Received, uncommitted changes are dropped, since the server sends them
// again. Pending calls are dropped too, as in client-go: an added or updated object is replayed by OnAdd at the next
// start, a delete is not. A handler that must not miss deletes compares with the replay, or is durable. An informer
// runs once; New makes another one on the same collection. Close an informer that is never run.
//
// Index functions run while a batch is applied, and must not call the informer. Handlers, the transform, the watch
// error handler and the sinks of Options.Logger and HandlerOptions.Logger may: nothing is logged under a lock. The sink
// of store.Options.Logger may call Status.
package informer
