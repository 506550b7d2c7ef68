// Package proc reads a process's anonymous and mapped memory, the bytes that it caused to be written, and its processor
// time from /proc. On systems other than Linux these functions return errors. Profile writes profiles, on any system.
package proc
