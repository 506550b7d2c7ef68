// Package requests makes, from a client of the API server, the arguments of informer.New:
//
//   - the ListerWatcher of an entry.Identity: ListWatch from a REST client, ClientListWatch from a clientset's client;
//   - functions for informer.Options that read the cluster's id (KubeSystemUID), the server's version (ServerVersion),
//     and the hash of a group-version's schema (OpenAPIHash, or Schemas for many informers);
//   - a function that lists metadata (ListMetadata). A ListerWatcher from ListWatch does not need it.
//
// Each of these functions makes one request with the given context and may be called by several goroutines. Errors are
// client-go's, wrapped with the path of the request. The factories and the adapter for controller-runtime use this
// package. A program needs it only if it calls informer.New itself.
package requests
