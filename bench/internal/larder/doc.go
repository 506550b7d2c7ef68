// Package larder runs larder in a separate process, whose memory and processor time can be measured. The process is the
// benchmark's own program, started with Argument. Collection and Synced query a running larder sync for its progress.
package larder
