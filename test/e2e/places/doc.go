// Package places starts the servers that tests keep files at: an OCI registry, and an S3 gateway on a directory.
//
//	host := places.Registry(t, t.TempDir())
//	s3 := places.S3(t, t.TempDir())
//
// Registry runs the CNCF's distribution and S3 runs versitygw, each pinned in a module of its own in test/clients. The
// first call on a machine builds the program, which takes minutes; make clients does so before.
//
// A server listens on a free loopback port, speaks plain HTTP and answers when the function returns. It belongs to the
// test that started it, and is killed by its own id when that test ends; on Linux the kernel kills it too if the test's
// process dies. What is in its directory stays, so that another server may be started on it. If the test fails, its log
// gets the end of what the server has written.
package places
