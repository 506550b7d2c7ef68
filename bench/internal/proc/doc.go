// Package proc reads what the kernel knows about a process from /proc: anonymous and mapped memory, bytes that it caused to
// be written, processor time. On systems without /proc every function returns an error that says so.
package proc
