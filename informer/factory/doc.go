// Package factory has the shared informer factories of client-go with informers whose cache is a [store.Store]. A
// program changes only the line that makes its factory:
//
//	st, err := store.Open("larder.db", store.Options{})
//	o := factory.Options{Informer: informer.Options{Store: st}}
//	f, err := factory.NewSharedInformerFactory(client, resync, o, &corev1.Pod{}, &appsv1.Deployment{})
//	f := factory.NewDynamicSharedInformerFactory(dynamicClient, resync, o)
//	f := factory.NewMetadataSharedInformerFactory(metadataClient, resync, o)
//
// Several factories may use one store: objects of another form, namespace or selector are another collection. Informers
// with equal form, namespace and selectors share their collection, with one list and one watch; see "Informers on one
// collection" in package informer. If their options differ, the second is refused with [store.ErrCollectionOpen].
//
// # Typed
//
// [NewSharedInformerFactory] returns client-go's own factory, with Larder's informers registered for the listed types.
// So f.Core().V1().Pods().Informer(), .Lister(), ForResource and InformerFor return Larder's for these types, and
// client-go's for all others, which list from the server at each start. Start starts every listed type, even if its
// Informer method was never called. Pods().Informer() is client-go's wrapper; [informer.Of] returns the
// *informer.Informer in it, which has a Status and a Reader. Do not list a type for which the program calls InformerFor
// with a function of its own: the listed type's informer takes precedence.
//
// # Dynamic and metadata
//
// ForResource makes an informer for a resource and keeps it. It cannot return an error. If no informer can be made,
// every method of the returned informer and lister that can fail returns the reason: AddEventHandler, the lister's
// methods, [informer.Of]. WaitForCacheSync returns false for the resource when its channel closes. (GetIndexer().List()
// cannot fail, and is empty.) The resource stays refused: another try needs another factory.
//
// Set Options.Config to the rest.Config that the client was made from. Informers then read the server's answers
// themselves and decode only the objects that are read (see informer.Options.ClientDecodes).
//
// # Generated clientsets
//
// Keep the informer factory of a generated clientset. Pass its InformerFor a function that calls [NewInformer].
//
// # Identity and guards
//
// The collection's identity is the resource, Options.Namespace (for namespaced types) and the selectors that
// Options.TweakListOptions sets. TweakListOptions is called once, with empty options. Only the selectors are taken from
// it: resourceVersion, limit and timeouts belong to the reflector. A selector that does not parse is an error.
//
// Unless Options.Informer.ClusterID is set, each connect of an informer reads the UID of the namespace kube-system
// through the client, which needs permission to get that namespace. Without it, another cluster at the same address is
// noticed by its resourceVersions only. The hash of the OpenAPI schema, and lists by metadata
// (informer.Options.ListMetadata), need a REST client. The typed client has one. For the dynamic and the metadata
// factory set Options.Config or Options.RESTClient. Without either, a new default in a CRD is not noticed, and a
// restart waits about a second for a bookmark even if there are few objects.
//
// # The fakes of client-go
//
// All three factories work with the fake clientsets of client-go, for unit tests. Use Options.Informer.InMemory, or a
// file that starts empty: the fakes give objects no resourceVersions and keep no deletions, so a restart on one file
// cannot be tested with them.
//
// # Collections that the program no longer lists
//
// If a new build of the program no longer lists a type, namespace or selector, its collection stays in the store.
// [store.Store.Prune] drops all collections that this program has not opened:
//
//	f.Start(ctx.Done())
//	f.WaitForCacheSync(ctx.Done())
//	err := st.Prune(ctx)
//
// Call it once all informers of the program have been made, including the informers of its other factories on the
// store. The dynamic and the metadata factory open a collection in ForResource, the typed factory when it is made.
//
// # Ownership and shutdown
//
// The caller owns the store, and closes it after Shutdown, because listers and other readers of the store fail after
// that. Deferred calls run in reverse order, so defer st.Close() comes before defer f.Shutdown(). Start returns at
// once; its informers end with its channel or context. Shutdown waits for them, and closes the collections of informers
// that were never started: call it even if Start was never called. After that ForResource makes no new informers, and
// the existing ones can still be read. If a constructor fails, nothing is left open.
package factory
