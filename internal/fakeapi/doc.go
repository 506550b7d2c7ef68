// Package fakeapi is an embedded Kubernetes API server for demos, tests and
// benchmarks: real HTTP/1.1 on loopback, JSON and protobuf, no etcd, no
// authentication, no admission, no validation of objects.
//
// # First call
//
//	s := fakeapi.New(fakeapi.Options{})
//	if err := s.Start(); err != nil { … }
//	defer s.Stop()
//	client, err := kubernetes.NewForConfig(s.Config())
//
// # What it serves
//
// Discovery (the legacy documents), /version, an /openapi/v3 index, and, for pods, configmaps, secrets, nodes,
// namespaces, deployments and the custom resources of Options: get, list, watch, create, update, patch (merge), delete,
// deletecollection, and the metadata-only representation. Behaviour that a client can see follows kube-apiserver 1.36:
// order of lists, meaning of resourceVersion, continue tokens, when bookmarks come, wording and shape of errors.
//
// # What is not kube-apiserver's
//
// Objects are not validated, defaulted or admitted, and names are not generated; a namespace need not exist.
// Finalizers, grace periods and preconditions of deletions are not heeded: a deletion is one write, where
// kube-apiserver makes two of a pod's (the first sets deletionTimestamp, so that watches see MODIFIED before DELETED).
// The status subresource is listed and not served: a write writes the status too. Nothing is written by the server
// itself, so the resourceVersion moves only with the writes of clients.
//
// # State
//
// One counter numbers every write, whatever the resource. Objects are kept as
// the bytes of the wire and are immutable; a write replaces the object. The history of each
// resource is a log that every watch reads at its own place, so a slow watch never
// holds up a write. History is bounded by Options.History.
//
// # Shutdown
//
// Stop closes the port and every connection, and returns when no goroutine of the server is left.
// All methods are safe for concurrent use, but Start, Stop, Restart and Restore are to be called by one
// goroutine at a time.
package fakeapi
