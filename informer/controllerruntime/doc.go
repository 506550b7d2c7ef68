// Package controllerruntime makes the caches of controller-runtime's managers and clusters persistent, in one line:
//
//	st, err := store.Open("larder.db", store.Options{})
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{NewCache: controllerruntime.NewCache(informer.Options{Store: st})})
//	err = mgr.Start(ctx)
//	st.Close() // when Start has returned
//
// After a restart of the program the cache lists nothing: each of its informers resumes the watch from what is on disk.
// Call [NewCache]; there is nothing else. The cache is controller-runtime's own, with informers of package informer
// below; what those do, and when HasSynced is true, is in that package's documentation. Informers of a cache, but for
// those over several namespaces, are *informer.Informer: inf.(*informer.Informer).Status().
//
// The cache's List is controller-runtime's too: it gets all objects of the namespace, or all there are, copies those
// that the label selector selects, and knows no Continue. Where they are not kept in memory
// (informer.Options.Residency) all of them are decoded for that. inf.(*informer.Informer).Reader() takes a query.Query,
// with any field and a key to go on from, and decodes only what it selects; what it returns must not be modified.
//
// This is a module of its own, so that Larder does not depend on controller-runtime. It is for controller-runtime
// v0.25.
//
// # Which collection an informer gets
//
// controller-runtime tells the maker of an informer neither resource nor namespace nor selectors. So NewCache lets the
// ListerWatcher make its list request, and the cache's HTTP client records it instead of sending it: nothing leaves the
// process, and no rate limiter or retry delays it. (rest_client_requests_total counts one of code "<error>" for each
// informer that is made.) Path, selectors and Accept header of the request are the entry.Identity. So structured,
// unstructured and metadata informers on one kind, each namespace of a multi-namespace cache, and each selector have a
// collection of their own. To change a selector is to begin an empty collection; the old one is dropped after
// store.Options.ForgetAfter.
//
// Where the request does not tell (none, or more than one, was recorded; its path is not that of a list; it has a
// parameter that may change the answer), or the RESTMapper has more than one kind for exactly the group, version and
// resource of its path, the informer is refused: GetInformer, and every Get, List and IndexField of the kind, fail with
// [ErrIdentity] and the reason. Controllers log it and try again until their CacheSyncTimeout.
//
// # What of informer.Options is taken
//
// All, for every informer of the cache, but Identity, Resource, Codec, Lookup, ListMetadata, ResyncPeriod, Indexers and
// ObjectDescription, which differ between informers and are derived: to set one is an error ([ErrOptions]). Without
// ClusterID, requests.KubeSystemUID is used, and without OpenAPIHash, requests.NewSchemas' Hash of the group-version:
// the program needs to get the namespace kube-system (by RBAC; every authenticated user can read the OpenAPI index
// unless that was taken away). If it is not allowed to, an exchanged cluster on the same address is noticed by its
// resourceVersions only. IndexVersions name indexes as controller-runtime does, "field:spec.nodeName", for all kinds
// alike. An index without a version is built anew in the background by each process, from what is on disk, since its
// function is a closure that may have changed: nothing is listed, and until it is built look-ups go through all
// objects. The index by namespace has a version of its own.
//
// Secrets are in memory only, their metadata too, and are listed at each start, unless the store has keys
// (store.Options.Encryption) or PersistSecrets is set.
//
// # What of cache.Options is honoured, and how
//
//	HTTPClient                    copied, with a round tripper around its Transport; its Timeout stays
//	Scheme                        as in cache.New
//	Mapper                        of a cache without a manager: default one on the store, as of MapperProvider. A manager
//	                              or cluster always sets its own: see below
//	SyncPeriod                    resyncs, with controller-runtime's jitter. They read the store
//	ReaderFailOnMissingInformer   as in cache.New
//	DefaultNamespaces, ByObject   a collection for each namespace and selector; also for all namespaces but some
//	Default-, Label-,             part of the identity, in canonical form. A field selector that names a namespace makes
//	FieldSelector                 controller-runtime list that one; both are in the identity
//	DefaultTransform, Transform   applied before storage. Change informer.Options.TransformVersion with any of them: then all
//	                              bodies are written anew by one list before the sync. Without, stored objects keep the old form
//	DefaultWatchErrorHandler      called with what ended a connection, and when the store fails. Connections that
//	                              break cause no list
//	UnsafeDisableDeepCopy         honoured; do not modify what you get: others share it. With the residencies None and Bounded an
//	                              object is decoded for the read, so two reads of one key need not return the same pointer
//	EnableWatchBookmarks          honoured. Without bookmarks a restart may take 12 seconds to be sure that nothing was missed, and a
//	                              quiet resource's resourceVersion on disk ages until the server has forgotten it: then it is listed
//	NewInformer                   refused with ErrOptions, as it is how NewCache works
//
// # Starting offline
//
// With informer.Options.SyncPolicy Disk the cache syncs without an API server, from what is stored. But
// controller-runtime asks its RESTMapper about each kind before there is an informer on it, and already in NewManager
// if Cache.ByObject is set; its default one asks the server. [MapperProvider] gives the manager one that answers from
// the store, so that a manager which has run once starts offline:
//
//	ctrl.Options{
//		NewCache:       controllerruntime.NewCache(informer.Options{Store: st, SyncPolicy: informer.Disk}),
//		MapperProvider: controllerruntime.MapperProvider(st),
//	}
//
// It is the manager's GetRESTMapper too, and must be: handler.EnqueueRequestForOwner asks that for each event, and
// drops the request if it fails. A kind that the store does not know is waited for: GetInformer, and the first Get or
// List of the kind, fail with mapper.ErrUnreachable after ten seconds, and at once for a while after that; readers of
// the other kinds wait as long. What follows is controller-runtime's, and is so without a server:
//
//   - Kinds that were never listed, or are in memory only (Secrets), do not sync. Informers that were made before the
//     manager's Start, by IndexField or GetInformer, hold up all of it; those of controllers end Start with an error
//     after Controller.CacheSyncTimeout, two minutes by default.
//   - Leader election waits for the server, and controllers for their election; a leader that cannot renew its lease
//     ends after RenewDeadline. A manager that is to work offline has LeaderElection off, or a resource lock of its
//     own.
//   - Writes, reads by GetAPIReader, and reads of unstructured objects without Client.Cache.Unstructured fail. Requests
//     whose reconciliation fails are tried again after 5 ms, doubled up to 1,000 s: give controllers a RateLimiter with
//     a lower limit, or enqueue again when the server is back (informer.Informer's SubscribeSource tells).
//   - Metrics servers with a FilterProvider ask the server about each scrape.
//
// # Metrics
//
// Set informer.Options.Observer to a metrics.Metrics, and register that with controller-runtime's metrics.Registry,
// whose server shows it.
//
// # Handlers and deletes
//
// Controllers add their handlers to informers that have synced, whoever makes the cache. So at a start they are told of
// every object that there is, and not of those that vanished while the program was down. A handler that is to be told
// of those must be added before the manager starts: mgr.GetCache().GetInformer(ctx, obj,
// cache.BlockUntilSynced(false)), then AddEventHandler.
//
// # Ownership and shutdown
//
// The caller owns the store, and closes it when the manager's Start has returned (with an error after
// GracefulShutdownTimeout, informers may still be running; they end when the store is closed). Informers of a cache
// that was never started hold their collections until then. One store serves one manager or cluster at a time: a second
// one in the process that wants the same collection is refused with store.ErrCollectionOpen. Give each API server's
// cluster.Cluster a store of its own: an identity does not name the server. That two of them share one is not known
// before they connect, since one cluster has many addresses. Then the informers of the second do not sync, and their
// Status.Err, the log and DefaultWatchErrorHandler have store.ErrOtherCluster, although the two have no kind in common;
// but not if kube-system cannot be read.
//
// An informer that was removed by RemoveInformer gives its collection to the next one that is made for it, which
// resumes where that one ended. What was removed stays on disk for store.Options.ForgetAfter.
package controllerruntime
