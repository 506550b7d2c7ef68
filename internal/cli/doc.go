// Package cli is the command line of Larder: Main runs it.
//
// One file per command (sync.go, get.go, status.go, check.go, demo.go,
// version.go), each with a function that returns the cobra command; beside
// them what they share: resource.go and discover.go (what people call a resource),
// choose.go (which collection answers a question), table.go and list.go (printing), exit.go
// (errors and exit codes).
//
// Data goes to standard output; everything else (ages, hints, errors, logs) to standard error.
// Exit codes: 0 done; 1 what was asked for failed, was not found, or has problems; 2 the command was
// used wrongly.
//
// The reading commands need no API server and work while a sync holds the
// file: see package source.
package cli
