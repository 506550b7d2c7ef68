// Package proc reads a process's anonymous and mapped memory, the bytes that it caused to be written, and its processor
// time from /proc. On systems other than Linux every function returns an error.
package proc
