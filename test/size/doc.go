// Command size prints how large Larder is, beside the limits of its design: lines by package, the largest types, the
// exported names, and how far an event and a restart walk through the code.
//
//	make size
//	go run ./test/size -house > docs/img/architecture-house.d2
//
// A line is a line of a Go file that is no test: comments, empty lines and generated code count. The limits are
// questions to a reviewer, and no gates: the exit status does not depend on them.
//
// Its tests hold docs/architecture.md against the code: the lists of functions passed (see Walk), by the code and by
// the stacks of a real event and a real restart, and the picture of the packages.
package main
