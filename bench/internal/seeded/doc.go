// Package seeded measures first starts: those of many stores at once, each with an informer of its own on all pods,
// from a snapshot beside those that list.
//
// Run drives, and writes the tables. The stores of a case are in one process, the same program, started with
// ChildArgument; each has its own connections. The snapshot comes from a file server on loopback in the driver's
// process, which stands for a CDN: what it sends is counted by itself.
//
// The server's processor time is that of kube-apiserver alone, less what it takes in as much time when nobody asks for
// anything: with 100,000 pods that is a twentieth of a core, which in the time of a start is more than the start takes.
// The server does not compare its cache with etcd meanwhile. Clients, kube-apiserver and etcd share the machine, so
// times are of that machine, and ratios hold better.
package seeded
