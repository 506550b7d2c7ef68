// Command size prints how large Larder is, beside the demands of its design: the lines that an import reaches, by
// package; its files, object types and options; the largest types and the exported names; and how far an event and a
// restart walk through the code.
//
//	make size
//	go run ./test/size -house > docs/img/architecture-house.d2
//
// A line is a line of a Go file that is no test, or of a file that a package embeds: comments, empty lines and
// generated code count. An import reaches the packages that users can import, and all packages of the module that
// those import, internal ones too. The demands are questions to a reviewer, and no gates: the exit status does not
// depend on them.
//
// Its tests hold docs/architecture.md against the code: the lists of functions passed (see Walk), by the code and by
// the stacks of a real event and a real restart, and the picture of the packages.
package main
