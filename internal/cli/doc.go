// Package cli is the command line of Larder. Start at [Main].
//
// This package has the parts that concern the whole program: the command tree (root.go), streams and exit codes
// (run.go), help, completion and version. The commands are in packages, one for each group. The function that returns a
// cobra command is in a file with the command's name:
//
//	query      get, watch, log, diff
//	file       status, wait, check, compact, keygen
//	snapshots  snapshot save, restore, export
//	mirror     sync
//	serving    serve
//
// The commands share the packages command (streams, errors, flags), input (which file and which of its collections to
// read), cluster (the API server) and terminal (colours, tables, escaping of control characters).
//
// Data is written to standard output; ages, hints, errors and logs to standard error. Exit codes: 0 success; 1 the
// request failed, found nothing or found problems; 2 wrong usage. Exit codes of diff: 0 no difference, 1 a difference,
// 2 wrong usage, 3 not compared. larder --help documents them for users.
//
// The reading commands need no API server and work while a sync holds the file, because they read a source.Source.
package cli
