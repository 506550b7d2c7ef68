// Package runner drives the benchmark: it plans the cases, starts a server for each group of them, runs every case in a
// process of its own, and hands what they said to package report.
//
// Run is the driver. Child is the other side: the same program, started with the argument "child". They talk in lines: the driver
// sends the case, the child answers "ready" when the driver is to act and waits for "go", and ends with its result. A
// child whose driver has gone ends too.
package runner
