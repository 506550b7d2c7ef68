// Package query has the commands that print stored objects and their changes: larder get, watch, log and diff.
//
// get prints like kubectl. args.go parses the arguments, and get.go waits for a sync that has just been started. Some
// printers are cli-runtime's. This package has the streaming ones (printer.go, and table_printer.go with package
// columns) and those that kubectl does not export. docs/kubectl.md lists the differences from kubectl, and a test in
// test/e2e/kubectl reads that list.
//
// watch prints events with the printers of get, or the fields that changed in the format of diff (events.go,
// diff_print.go, package compare). log reads a changelog or compares a series of files (log.go).
package query
