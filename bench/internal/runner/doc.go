// Package runner drives the benchmark: it starts a server for each group of cases, runs every case in a process of its
// own, and returns the results for package report. Starts measures only starts, without child processes.
//
// Run is the driver. Child is the other side: the same program, started with the argument "child". The driver sends the
// case. The child asks for changes, waits until the driver has made them, and ends with its result.
package runner
