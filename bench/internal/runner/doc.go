// Package runner drives the benchmark: it starts a server for each group of cases, runs every case in a process of its
// own, and passes the results to package report. Starts measures only starts, in this process.
//
// Run is the driver. Child is the other side: the same program, started with the argument "child". The driver sends the
// case. The child answers when the driver must make the changes, waits for them, and ends with its result.
package runner
