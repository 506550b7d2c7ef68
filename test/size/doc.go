// Command size prints how large Larder is, beside the limits of its design: lines by package, the largest types, the
// exported names, and how far an event and a restart walk through the code.
//
//	make size
//	go run ./test/size -house > docs/img/architecture-house.d2
//
// A line is a line of a Go file that is no test: comments, empty lines and generated code count. The limits are
// questions to a reviewer, and no gates: the exit status does not depend on them.
//
// The walk of an event is counted twice: as docs/architecture.md lists it, and by sending one through an informer that
// is built with counters (test/size/event), which takes half a minute the first time.
//
// Its tests hold docs/architecture.md against the code: the lists of functions passed (see Walk), and the picture of
// the packages.
package main
