// Package cli is the command line of Larder: Main runs it.
//
// One file per command (sync.go, get.go, watch.go, status.go, check.go, diff.go, snapshot_save.go, snapshot_restore.go,
// snapshot_export.go, compact.go, keygen.go, demo.go, version.go, completion.go), each with a function that returns the
// cobra command; beside them what they share: kubeconfig.go, cluster.go and server_error.go (the way to the server, and
// what went wrong there), resource.go, discover.go and suggest.go (what people call a resource, and what they may have
// meant), choose.go (which collection answers a question), absent.go (what a file does not have), interrupted.go
// (commands that were asked to end), path.go (what is wrong with a store's path), from.go, named_file.go,
// passphrase.go, ask_secret.go, recipients.go and keys.go (what opens, and encrypts), select.go (which objects are
// taken), diff_fields.go (which fields are different), progress.go, table.go and colour.go (tables of status and sync),
// logs.go, plain_log.go and live.go (what sync tells), help.go, visible.go (what a terminal may be given), exit.go
// (errors and exit codes).
//
// get prints as kubectl does: get_args.go takes the arguments apart, first_list.go waits for a sync that has just been
// started, printer.go chooses among cli-runtime's printers and the ones here, which are those that stream (list.go,
// table_printer.go, with the columns of package columns) and those that kubectl keeps to itself (custom_columns.go,
// sort.go). What differs from kubectl is in docs/kubectl.md, and a test in test/e2e/kubectl reads it there.
//
// A sync plans first (plan.go: names are resolved, and the server is asked whether it lists what is not stored yet) and
// opens the store after that (open.go), so that one that cannot begin leaves nothing behind. While the server is out
// of reach, what is stored needs no plan.
//
// Data goes to standard output; everything else (ages, hints, errors, logs) to standard error. Exit codes: 0 done; 1
// what was asked for failed, was not found, or has problems; 2 the command was used wrongly. diff: 0 no difference, 1 a
// difference, 2 used wrongly, 3 not compared. The help of larder has them for users.
//
// A running sync is a service (service.go): the mirror (mirror.go), whose members change when a configuration does
// (settings.go, reload.go, replace.go), what shows it (live.go), the socket, the health and metrics
// endpoints (package endpoint), and what systemd is told (notify.go).
//
// The reading commands need no API server and work while a sync holds the
// file: see package source.
package cli
