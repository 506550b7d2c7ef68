// Package controlplane starts a real kube-apiserver on a real etcd, both on
// free loopback ports, for tests and the demo.
//
// Start returns when the server is ready. StopAPIServer, StartAPIServer,
// Restart, Backup, Restore, Reset and Compact are the accidents that a client
// has to live with; address and credentials stay the same through all of
// them. Requests says exactly what was asked of the server: it reads the audit
// log, which has one entry per request, in order, with the query.
//
// Every process belongs to the ControlPlane that started it and is killed by
// its own id in Stop; on Linux the kernel kills it too if this process dies.
//
// The programs come from the module test/cluster, which builds them once into
// the user's cache directory.
package controlplane
