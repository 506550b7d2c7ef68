// Package fakeapi is an embedded Kubernetes API server for demos, tests and benchmarks: real HTTP/1.1 on loopback, JSON
// and protobuf, no etcd, no authentication, no admission, no validation of objects. It imports no other package of this
// module: tests compare package serve with it, and would not find a fault of common code.
//
// # First call
//
//	s := fakeapi.New(fakeapi.Options{})
//	if err := s.Start(); err != nil { … }
//	defer s.Stop()
//	client, err := kubernetes.NewForConfig(s.Config())
//
// # Supported requests
//
// The server answers discovery (the legacy documents), /version and an /openapi/v3 index. For pods, configmaps,
// secrets, nodes, namespaces, deployments and the custom resources of Options it supports get, list, watch, create,
// update, patch (merge), delete, deletecollection, and the metadata-only representation. Behaviour that a client can
// see follows kube-apiserver 1.36: the order of lists, the meaning of resourceVersion, continue tokens, the times of
// bookmarks, wording and shape of errors.
//
// # Differences from kube-apiserver
//
// Objects are not validated, defaulted or admitted, and names are not generated; a namespace need not exist.
// Finalizers, grace periods and preconditions of deletions are ignored. A deletion is one write, where kube-apiserver
// makes two of a pod's: the first sets deletionTimestamp, so that watches see MODIFIED before DELETED. The status
// subresource is listed and not served: a write writes the status too. The server itself writes nothing, so the
// resourceVersion changes only with the writes of clients.
//
// # State
//
// One counter numbers all writes of all resources. Objects are kept encoded and are immutable; a write replaces the
// object. The history of each resource is a log. Each watch reads it at its own position, so a slow watch never delays
// a write. Options.History bounds the history.
//
// # Shutdown
//
// Stop closes the port and every connection, and returns when all goroutines of the server have ended. All methods are
// safe for concurrent use, except that Start, Stop, Restart and Restore must be called by one goroutine at a time.
package fakeapi
