// Command size measures Larder against the goals of its design: the lines that an import reaches, by package; files,
// object types and options; the largest types; the exported names; and the functions that an event and a restart pass.
//
//	make size
//	go run ./test/size -house > docs/img/architecture-house.d2
//
// The command counts all lines of Go files other than tests, and of files that a package embeds, including comments,
// empty lines and generated code. An import reaches the public packages, and the packages of the module that they
// import, internal ones included. The goals are questions for a reviewer. They do not affect the exit status.
//
// The tests check docs/architecture.md: its function lists (see Walk) against the code and against call stacks of a
// real event and a real restart, and its picture against the packages.
package main
