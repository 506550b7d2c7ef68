// Package demo tells the story of Larder on a running API server, from
// measurements that it takes: a cold start, a restart after changes that happened
// meanwhile, a start without the API server, and the list after the server has
// lost its history; and the same steps with client-go's own informer.
//
// Run is the story. It needs a Cluster: Embedded (an API server in this process), or another implementation, such as a
// kube-apiserver that was started for it (test/e2e/cmd/demo-real). `make demo` and `make demo-real` tell it.
//
// Every figure is measured: bytes by a dialer that counts, requests by the server's
// own log where the cluster has one. Every claim is checked against a fresh LIST, or against what
// the demo itself did; one that does not hold ends the story with an error that wraps ErrClaim.
//
// Run returns when nothing of it is running any more and its namespace has been removed.
package demo
