// Package query has the commands that print stored objects and their changes: larder get, watch, log and diff.
//
// get prints like kubectl. args.go parses the arguments; get.go waits for a sync that has just been started;
// printer.go chooses the printer. Some printers are cli-runtime's. This package has the streaming printers (printer.go,
// table_printer.go with package columns), and the printers that kubectl does not export (table_printer.go, sort.go).
// docs/kubectl.md lists the differences from kubectl, and a test in test/e2e/kubectl reads that list.
//
// watch prints events with the printers of get (events.go), or the fields that changed (events.go), in the
// format of diff (diff_print.go, package compare). log reads a changelog (log.go) or compares a series of files
// (log.go).
package query
