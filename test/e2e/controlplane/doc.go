// Package controlplane starts kube-apiserver and etcd on free loopback ports, for tests and the demo.
//
// Start returns once the server is ready. StopAPIServer, StartAPIServer, Restart, Backup, Restore, Reset and Compact
// simulate failures that clients must survive. Address and credentials never change. Requests returns the server's
// requests in order, with their queries, from the audit log.
//
// Every process belongs to its ControlPlane, and Stop kills it by process id. On Linux the kernel also kills the
// process when the parent dies.
//
// The programs come from the module test/cluster, which builds the programs once into the user's cache directory.
package controlplane
