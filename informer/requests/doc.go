// Package requests makes what an informer asks of an API server out of a REST client: the ListerWatcher of an
// entry.Identity (ListWatch, or ClientListWatch of a clientset's client), and the functions of informer.Options that
// list by metadata (ListMetadata), read the cluster's id (KubeSystemUID) and the hash of a group-version's schema
// (OpenAPIHash; Schemas, where many informers share the answer).
//
// Each function that it returns makes one request with the context that it is given, and may be called by several
// goroutines. Errors are client-go's, wrapped with the path that was asked for. The factories and the adapter for
// controller-runtime use it; a program needs it only where it calls informer.New itself.
package requests
