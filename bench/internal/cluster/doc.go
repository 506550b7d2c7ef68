// Package cluster has the two servers of the benchmark behind one interface: kube-apiserver with etcd, and the embedded
// API server, which sends events faster than a real one.
//
// Start one with StartReal or StartEmbedded, and close it. Both belong to the process that drives the benchmark. The
// measured informers run in separate processes, which receive an Access.
package cluster
