// Package cluster has the two servers of the benchmark behind one interface: kube-apiserver with etcd, and the embedded
// API server, which sends events faster than a real one.
//
// Start a server with StartReal or StartEmbedded, and close it. The process that drives the benchmark owns both
// servers. The measured informers run in separate processes, which receive an Access.
package cluster
