// Package factory makes the shared informer factories of client-go out of informers whose cache is a
// [store.Store]. A program changes the line that makes its factory, and nothing else:
//
//	st, err := store.Open("larder.db", store.Options{})
//	o := factory.Options{Informer: informer.Options{Store: st}}
//	f, err := factory.NewSharedInformerFactory(client, resync, o, &corev1.Pod{}, &appsv1.Deployment{})
//	f := factory.NewDynamicSharedInformerFactory(dynamicClient, resync, o)
//	f := factory.NewMetadataSharedInformerFactory(metadataClient, resync, o)
//
// All of them may use one store, also for the same resource: objects of another form, namespace or selector are another
// collection. Two informers that agree in all of these cannot have the collection at the same time: the second is
// refused with [store.ErrCollectionOpen]; if the first is ending, once that has taken half a minute.
//
// # Typed
//
// [NewSharedInformerFactory] returns client-go's own factory, with our informers registered for the listed types: so
// f.Core().V1().Pods().Informer(), .Lister(), ForResource and InformerFor give ours, and those of all other types give
// client-go's. A type that is not listed is client-go's, and is listed from the server at each start. A listed type is
// started by Start whether or not anybody has asked for its informer. Pods().Informer() is a wrapper of client-go's;
// [informer.Of] finds the *informer.Informer in it, with its Status, and with its Reader for what a lister cannot do:
// read by labels or fields, page by page, or by a range of an index, and decode only that. Do not list a type for which
// the program calls InformerFor with a function of its own: the listed one wins.
//
// # Dynamic and metadata
//
// ForResource makes an informer for a resource and keeps it. It cannot return an error; where no informer can be made,
// everything that it returns fails with the reason: AddEventHandler, the lister, [informer.Of], and also
// WaitForCacheSync, which says false for the resource when its channel closes. (GetIndexer().List() cannot fail, and
// is empty.) The next ForResource tries again; if it succeeds, the informer is started if the refused one was. What was
// returned before stays refused.
//
// # What an informer is on
//
// The collection's identity is the resource, Options.Namespace (for types that have one) and the selectors that
// Options.TweakListOptions sets; it is called once, with empty options. Our informers take the selectors from it and
// nothing else: resourceVersion, limit and time-outs are the reflector's. Selectors that do not parse are an error.
//
// Unless Options.Informer.ClusterID is set, the UID of the namespace kube-system is read through the client at each
// connect of an informer; being allowed to get that namespace is enough, and not being allowed means that another
// cluster behind the same address is noticed by its resourceVersions only. The hash of the OpenAPI schema needs a REST
// client: the typed client has one; for dynamic informers set Options.RESTClient, or a new default in a CRD is not
// noticed. It also lists by metadata (informer.Options.ListMetadata), for the dynamic and the metadata factory only if
// it is set. None of this applies to the fakes of client-go.
//
// # The fakes of client-go
//
// All three factories work with the fake clientsets of client-go, for unit tests; use Options.Informer.InMemory or a
// file that starts empty. The fakes give objects no resourceVersions and keep no deletions, so that a restart on one
// file cannot be tried with them.
//
// # Ownership and shutdown
//
// The caller owns the store, and closes it after Shutdown, for what reads it, listers too, fails afterwards: defer
// st.Close() comes before defer f.Shutdown(), since deferred calls run in reverse order. Start returns at once; its
// informers end with its channel or context. Shutdown waits for them, and gives back the collections of informers that
// were never started: call it also if Start was never called. After that ForResource makes no new informers, and stores
// can still be read through those that there are. If a constructor fails, nothing is left.
package factory
