// Package sizing measures the resources of larder sync for a number of objects of a size: file, memory, duration of a
// first start and of a restart, and changes a second.
//
// Run is the driver, and writes a table. The embedded API server runs in the driver's process. larder runs in its own
// process (package larder), whose RssAnon is sampled. Both processes share the machine.
package sizing
