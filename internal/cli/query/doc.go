// Package query prints what is in a file: larder get, watch and diff.
//
// get prints as kubectl does: args.go takes the arguments apart, first_list.go waits for a sync that has just been
// started, printer.go chooses among cli-runtime's printers and the ones here, which are those that stream (list.go,
// table_printer.go, with the columns of package columns) and those that kubectl keeps to itself (custom_columns.go,
// sort.go). What differs from kubectl is in docs/kubectl.md, and a test in test/e2e/kubectl reads it there.
//
// watch prints each event by the same printers (events.go), or says which fields have changed (watch_changes.go), as
// diff does of two files (diff_changes.go, package compare).
package query
