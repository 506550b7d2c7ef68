// Package fileservers starts file servers for tests: an OCI registry, and an S3 gateway on a directory.
//
//	host := fileservers.Registry(t, t.TempDir())
//	s3 := fileservers.S3(t, t.TempDir())
//
// Registry runs the CNCF's distribution and S3 runs versitygw, each pinned in a module of its own in test/clients. The
// first call on a machine builds the program, which takes minutes. make clients builds both beforehand.
//
// A server listens on a free loopback port and speaks plain HTTP. It answers when the function returns. The cleanup of
// its test kills it by process id; on Linux the kernel also kills it if the test process dies. The files in its
// directory stay, so another server may use them. If the test fails, its log includes the end of the server's output.
package fileservers
