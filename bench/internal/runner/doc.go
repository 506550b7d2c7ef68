// Package runner drives the benchmark: it starts a server for each group of cases, runs every case in a separate
// process, and returns the results for package report. Starts measures only starts, without child processes.
//
// Run is the driver. Child runs in the process of a case, which is the driver's own program, started with the argument
// "child". The driver sends the case. The child asks for changes, waits until the driver has made them, and ends with
// its result.
package runner
