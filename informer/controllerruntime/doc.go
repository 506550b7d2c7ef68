// Package controllerruntime makes the caches of controller-runtime's managers and clusters persistent, in one line:
//
//	st, err := store.Open("larder.db", store.Options{})
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{NewCache: controllerruntime.NewCache(informer.Options{Store: st})})
//	err = mgr.Start(ctx)
//	st.Close() // when Start has returned
//
// After a restart of the program the cache does not list: each of its informers resumes the watch from the file. The
// cache is controller-runtime's own, with the informers of package informer, which documents their behaviour, including
// HasSynced. The informers of a cache are *informer.Informer: inf.(*informer.Informer).Status(). There is one
// exception: if a cache has a kind in several namespaces, each namespace is a collection of its own, and the informer
// is controller-runtime's over those collections.
//
// The cache's List is controller-runtime's too: it gets all objects of the namespace, or of all namespaces, copies
// those that match the label selector, and does not support Continue. If the objects are not kept in memory
// (informer.Options.Residency), List decodes all of them. inf.(*informer.Informer).Reader() reads by a query.Query,
// with any field and a key to continue from, and decodes only the matching objects; its results must not be modified.
//
// This module is for controller-runtime v0.25. Larder's own module does not depend on controller-runtime.
//
// # Collections
//
// controller-runtime does not pass resource, namespace or selectors to the maker of an informer. So NewCache lets the
// ListerWatcher make its list request, which the cache's HTTP client captures instead of sending.
// (rest_client_requests_total counts one request with code "<error>" for each informer.) The request's path, selectors
// and Accept header give the entry.Identity. So structured, unstructured and metadata informers of one kind, each
// namespace of a multi-namespace cache, and each selector have a collection of their own. A changed selector starts an
// empty collection; the old one stays until store.Store.Drop or Prune.
//
// The identity cannot be derived if no request, or more than one, was captured, if the path is not a list's path, or if
// the request has a parameter that may change the answer. The informer is then refused: GetInformer, and every Get,
// List and IndexField of the kind, fail with [ErrIdentity] and the reason. Controllers log it and retry until their
// CacheSyncTimeout.
//
// # The fields of informer.Options
//
// They apply to every informer of the cache, except Identity, Resource, Codec, ListMetadata, ResyncPeriod, Indexers and
// ObjectDescription. These differ between informers and are derived: setting one is an error ([ErrOptions]). The
// defaults of ClusterID and OpenAPIHash are requests.KubeSystemUID and the Hash of requests.NewSchemas. They need
// permission to get the namespace kube-system, and to read the OpenAPI index, which every authenticated user has by
// default. Without the first, another cluster at the same address is noticed by its resourceVersions only.
// IndexVersions has indexes by controller-runtime's names, such as "field:spec.nodeName", for all kinds. Each process
// builds an index without a version again from the file, in the background, since its function is a closure that may
// have changed. Look-ups in the index wait for that build. The index by namespace has a version.
//
// Secrets, and their metadata, are in memory only and are listed at each start, unless the store has keys
// (store.Options.Encryption) or PersistSecrets is set.
//
// # The fields of cache.Options
//
//	HTTPClient                    copied, with a round tripper around its Transport; its Timeout stays
//	Scheme                        as in cache.New
//	Mapper                        default in a cache without a manager: MapperProvider's on the store. A manager or
//	                              cluster always sets its own: see below
//	SyncPeriod                    resyncs, with controller-runtime's jitter; they read the store
//	ReaderFailOnMissingInformer   as in cache.New
//	DefaultNamespaces, ByObject   a collection for each namespace and selector; also "all namespaces except"
//	Default-, Label-,             part of the identity, in canonical form. With a field selector that names a namespace,
//	FieldSelector                 controller-runtime lists that namespace; both are in the identity
//	DefaultTransform, Transform   applied before storage. They need informer.Options.TransformVersion, or NewCache fails.
//	                              Change it with any of them: then a list before the sync writes all bodies again.
//	                              informer.Unversioned accepts that stored objects keep the old form
//	DefaultWatchErrorHandler      called with errors that ended a connection, and errors of the store. Connections that
//	                              break cause no list
//	UnsafeDisableDeepCopy         honoured: the objects are shared, do not modify them. With the residency None
//	                              each read decodes the object, so two reads return different pointers
//	EnableWatchBookmarks          honoured. Without bookmarks a restart may take 12 seconds to verify that nothing was
//	                              missed, and a quiet resource is listed when its stored resourceVersion has expired
//	NewInformer                   refused with ErrOptions: NewCache sets it
//
// # Starting offline
//
// With informer.Options.SyncPolicy Disk the cache syncs without an API server, from the stored objects. But
// controller-runtime asks its RESTMapper about each kind before it makes an informer, and in NewManager already if
// Cache.ByObject is set. The default RESTMapper asks the server. [MapperProvider] gives the manager a RESTMapper that
// answers from the store, so that a manager that has run once starts offline:
//
//	ctrl.Options{
//		NewCache:       controllerruntime.NewCache(informer.Options{Store: st, SyncPolicy: informer.Disk}),
//		MapperProvider: controllerruntime.MapperProvider(st),
//	}
//
// It becomes the manager's GetRESTMapper. handler.EnqueueRequestForOwner requires that: it queries the RESTMapper for
// each event, and drops the request if that fails. For a kind that the store does not know, GetInformer and the first
// Get or List fail with mapper.ErrUnreachable after ten seconds, and at once for a while after that; readers of other
// kinds wait as long.
//
// The following is controller-runtime's behaviour without a server:
//
//   - Kinds that were never listed, or are in memory only (Secrets), do not sync. If an informer of such a kind is made
//     before the manager's Start, by IndexField or GetInformer, it blocks all of Start. If a controller makes it, Start
//     ends with an error after Controller.CacheSyncTimeout, two minutes by default.
//   - Leader election waits for the server, and controllers for their election. A leader that cannot renew its lease
//     ends after RenewDeadline. A manager that must work offline has LeaderElection off, or a resource lock of its own.
//   - Writes, reads by GetAPIReader, and reads of unstructured objects without Client.Cache.Unstructured fail. Failed
//     reconciliations are retried after 5 ms, doubled up to 1,000 s. Give controllers a RateLimiter with a lower
//     maximum, or enqueue again when the server is back, as reported by SubscribeSource of informer.Informer.
//   - Metrics servers with a FilterProvider send the server a request for each scrape.
//
// # Metrics
//
// Set informer.Options.Observer to a metrics.Metrics, and register that with the Registry of controller-runtime's
// package metrics, whose server exports it.
//
// # Handlers and deletes
//
// Controllers add their handlers to informers that have synced, with any cache. So at a start they get every existing
// object, and no deletes of objects that were deleted while the program was down. A handler that needs those must be
// added before the manager starts: mgr.GetCache().GetInformer(ctx, obj, cache.BlockUntilSynced(false)), then
// AddEventHandler. Or use [NewDurable].
//
// # Ownership and shutdown
//
// The caller owns the store, and closes it when the manager's Start has returned. (If Start fails after
// GracefulShutdownTimeout, informers may still be running; they end when the store is closed.) Informers of a cache
// that was never started hold their collections until then.
//
// Several managers of a process may use one store, if they are for one cluster. Caches that read the same objects share
// them: see "Informers on one collection" in package informer. If their options differ, the second is refused with
// store.ErrCollectionOpen. A field index in two caches needs a version (informer.Options.IndexVersions, under the name
// "field:" and the field); otherwise the second IndexField fails with "indexer conflict".
//
// Give the cluster.Cluster of each API server a store of its own, since an identity does not name the server. If two
// clusters share a store, that is noticed when they connect, if kube-system can be read. Then no informer of the second
// cluster syncs, and its Status.Err, the log and DefaultWatchErrorHandler report store.ErrOtherCluster.
//
// After RemoveInformer the next informer of the collection resumes where the removed one ended. A collection without an
// informer stays in the file until store.Store.Drop or Prune.
package controllerruntime
