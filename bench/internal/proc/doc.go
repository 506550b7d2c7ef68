// Package proc reads memory, written bytes and processor time of a process from /proc. On systems other than Linux
// these functions return errors. Profile writes profiles on any system.
package proc
