// Package sizing measures what larder sync takes for how many objects of which size: its file, its memory, a first
// start, a restart, and how many changes a second it takes in.
//
// Run drives, and writes a table. The embedded API server is in the driver's process; larder is a process of its own
// (package larder), and its memory is RssAnon, sampled. Both share the machine.
package sizing
