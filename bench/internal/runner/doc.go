// Package runner drives the benchmark: it starts a server for each group of cases, runs every case in a process of its
// own, and hands what they said to package report. Starts measures starts alone, in this process.
//
// Run is the driver. Child is the other side: the same program, started with the argument "child". The driver sends the
// case, the child answers when the driver is to act and waits for it, and ends with its result.
package runner
