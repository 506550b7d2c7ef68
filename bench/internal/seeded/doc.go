// Package seeded measures first starts of many stores at the same time: from a snapshot, compared with lists. Each
// store has its own informer on all pods.
//
// Run is the driver, and writes the tables. The stores of a case share one process, which is the driver's own program,
// started with ChildArgument. Each store has its own connections. The snapshot comes from a file server on loopback in
// the driver's process, which stands for a CDN. The bytes of the snapshot are counted separately.
//
// The server's processor time is the time of kube-apiserver alone, less its idle use over the same duration. With
// 100,000 pods an idle server uses a twentieth of a core, which during a start is more than the start itself uses.
// Meanwhile the server does not compare its cache with etcd. Clients, kube-apiserver and etcd share the machine, so
// ratios are more reliable than times.
package seeded
