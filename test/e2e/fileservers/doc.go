// Package fileservers starts file servers for tests: an OCI registry, and an S3 gateway on a directory.
//
//	host := fileservers.Registry(t, t.TempDir())
//	s3 := fileservers.S3(t, t.TempDir())
//
// Registry runs the CNCF's distribution and S3 runs versitygw, which separate modules in test/clients pin. The first
// call on a machine builds the program, which takes minutes. make clients builds both programs beforehand.
//
// A server listens on a free loopback port and speaks plain HTTP. The server answers when the function returns. The
// cleanup of the test kills the server by process id; on Linux the kernel also kills it if the test process dies. The
// server's files stay, so another server may use the directory. If the test fails, the test's log includes the end of
// the server's output.
package fileservers
