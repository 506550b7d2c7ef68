// Package larder is larder as a process of its own: the same program, started with Argument, so that its memory and its
// processor time are its own. Collection and Synced ask a running larder sync how far it is.
package larder
