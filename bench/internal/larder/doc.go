// Package larder runs larder in a process of its own, whose memory and processor time can be measured: the same
// program, started with Argument. Collection and Synced query a running larder sync for its progress.
package larder
