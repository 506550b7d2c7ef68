// Package cluster has the two servers of the benchmark behind one interface: a real kube-apiserver with a real etcd,
// and the embedded API server, which sends events faster than a real one can.
//
// Start one with StartReal or StartEmbedded, and close it. Both belong to the process that drives the benchmark. The
// measured informers run in processes of their own, which get an Access.
package cluster
