// Package query has the commands that print stored objects and their changes: larder get, watch, log and diff.
//
// get prints like kubectl. args.go parses the arguments; first_list.go waits for a sync that has just been started;
// printer.go chooses the printer. Some printers are cli-runtime's. This package has the streaming printers (list.go,
// table_printer.go with package columns), and the printers that kubectl does not export (custom_columns.go, sort.go).
// docs/kubectl.md lists the differences from kubectl, and a test in test/e2e/kubectl reads that list.
//
// watch prints events with the printers of get (events.go), or the fields that changed (watch_changes.go), in the
// format of diff (diff_changes.go, package compare). log reads a changelog (log_store.go) or compares a series of files
// (log_series.go).
package query
