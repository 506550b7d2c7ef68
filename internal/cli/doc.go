// Package cli is the command line of Larder: Main runs it.
//
// A command has a file of its name, with the function that returns the cobra command. What commands share is beside
// them: named_file.go, from.go and path.go (which file, how it is opened, and what is wrong with it), keys.go,
// passphrase.go and recipients.go (what opens and encrypts it), choose.go and resource.go (which collection answers a
// question), select.go (which objects are taken), absent.go (what a file does not have), suggest.go (what may have been
// meant), exit.go and interrupted.go (errors and exit codes).
//
// get prints as kubectl does: get_args.go takes the arguments apart, first_list.go waits for a sync that has just been
// started, printer.go chooses among cli-runtime's printers and the ones here, which are those that stream (list.go,
// table_printer.go, with the columns of package columns) and those that kubectl keeps to itself (custom_columns.go,
// sort.go). What differs from kubectl is in docs/kubectl.md, and a test in test/e2e/kubectl reads it there.
//
// A sync plans first (plan.go: names are resolved, and the server is asked whether it lists what is not stored yet) and
// opens the store after that (open.go), so that one that cannot begin leaves nothing behind. While the server is out
// of reach, what is stored needs no plan. It is a service then (service.go): the mirror (mirror.go), whose members
// change when a configuration does (settings.go, reload.go, replace.go), what tells of it (live.go, plain_log.go), the
// socket, the health and metrics endpoints (package endpoint), and what systemd is told (notify.go).
//
// Data goes to standard output; everything else (ages, hints, errors, logs) to standard error. Exit codes: 0 done; 1
// what was asked for failed, was not found, or has problems; 2 the command was used wrongly. diff: 0 no difference, 1 a
// difference, 2 used wrongly, 3 not compared. The help of larder has them for users.
//
// The reading commands need no API server and work while a sync holds the file: they read a source.Source, of which
// package source has those there are.
package cli
