// Package demo shows Larder on a running API server and measures it, beside client-go's informer: a cold start, a
// restart after changes, a start without the API server, and the list after the server has lost its watch history.
//
// Run is the demo. It needs a Cluster: Embedded, which is the fake API server in this process, or another
// implementation such as the kube-apiserver of test/e2e/cmd/demo-real. `make demo` and `make demo-real` run it.
//
// Every figure is measured: bytes by a counting dialer, requests by the cluster's log if the cluster has one. Every
// claim is checked against a fresh LIST or against the demo's own changes. A false claim ends the demo with an error
// that wraps ErrClaim.
//
// Run returns after it has stopped its goroutines and removed its namespace.
package demo
