// Package requests makes, from a client of the API server, what informer.New needs: the ListerWatcher of an
// entry.Identity (ListWatch from a REST client, ClientListWatch from a clientset's), and the functions of
// informer.Options that read the cluster's id (KubeSystemUID) and the hash of a group-version's schema (OpenAPIHash, or
// Schemas for many informers) and the server's version (ServerVersion), and list by metadata (ListMetadata, which
// ListWatch needs not).
//
// Each function that it returns makes one request with the given context, and may be called by several goroutines.
// Errors are client-go's, wrapped with the path of the request. The factories and the adapter for controller-runtime
// use this package; a program needs it only if it calls informer.New itself.
package requests
