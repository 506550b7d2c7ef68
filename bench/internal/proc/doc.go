// Package proc reads what the kernel knows about a process from /proc: anonymous and mapped memory, bytes that it
// caused to be written, processor time. Elsewhere than on Linux every function returns an error.
package proc
