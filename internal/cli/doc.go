// Package cli is the command line of Larder: Main runs it.
//
// Here is what is of the program as a whole: the command tree (root.go), streams and exit code (run.go), help,
// completion and version. The commands are packages, a group each, with a file of a command's name that has the
// function which returns the cobra command:
//
//	query      get, watch, diff
//	file       status, wait, check, compact, keygen
//	snapshots  snapshot save, restore, export
//	mirror     sync
//
// They share command (streams, errors, flags), input (which file is read, and what of it), cluster (the API server) and
// terminal (colours, tables, and what a terminal may be given).
//
// Data goes to standard output; everything else (ages, hints, errors, logs) to standard error. Exit codes: 0 done; 1
// what was asked for failed, was not found, or has problems; 2 the command was used wrongly. diff: 0 no difference, 1 a
// difference, 2 used wrongly, 3 not compared. The help of larder has them for users.
//
// The reading commands need no API server and work while a sync holds the file: they read a source.Source, of which
// package source has those there are.
package cli
