// Package cluster gives the benchmark its two servers behind one interface: a real kube-apiserver on a real etcd, and
// the embedded API server, which is quick enough to ask for more than a real one can.
//
// Start one with StartReal or StartEmbedded and close it. Both live in the process that drives the benchmark; what is
// measured runs in processes of its own, which get an Access.
package cluster
