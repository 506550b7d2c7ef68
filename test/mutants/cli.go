package main

// cliMutants are deliberate faults that break promises of larder's command line.
var cliMutants = []mutant{
	{
		name: "cli/error-every-second", breaks: "An error that lasts is written once a minute.",
		file: "internal/cli/mirror/logs.go",
		old:  `!ok || now.Sub(at) >= quietFor {`, new: `!ok || now.Sub(at) >= 0 {`,
		test: "TestLogOfManyCollections",
	},
	{
		name: "cli/line-for-each-forbidden", breaks: "One note has all forbidden resources.",
		file: "internal/cli/mirror/logs.go",
		old:  `if !first && last.what != what && !input.Forbidden(c) {`,
		new:  `if !first && last.what != what || input.Forbidden(c) {`,
		test: "TestLogOfManyCollections",
	},
	{
		name: "cli/forbidden-noted-again", breaks: "A resource that is forbidden again is not noted again.",
		file: "internal/cli/mirror/logs.go",
		old:  `!slices.Contains(p.noted, id) })`, new: `id != "" })`,
		test: "TestLogOfManyCollections",
	},
	{
		name: "cli/export-with-generated", breaks: "snapshot export leaves out what a new object cannot have.",
		file: "internal/cli/snapshots/export.go",
		old: `	leaveOutGenerated(object)
`,
		new:  ``,
		test: "TestLeaveOutGenerated",
	},
	{
		name: "cli/export-without-chosen-ports", breaks: "A nodePort that a client has set stays in an export.",
		file: "internal/cli/snapshots/export_generated.go",
		old:  `if !byClients.contain("f:spec", "f:ports", key, "f:nodePort") {`, new: `if key != "" {`,
		test: "TestLeaveOutGenerated",
	},
	{
		name: "cli/unknown-columns-unreported", breaks: "larder get says that a resource's columns are not known.",
		file: "internal/cli/query/get.go",
		old:  `if o.print.table() && !columnsOf(a.Choice).Known() {`, new: `if false {`,
		test: "TestNoteOfColumns",
	},
	{
		name: "cli/flow-schemas-by-name", breaks: "larder get prints FlowSchemas in their order of precedence.",
		file: "internal/cli/query/table_printer.go",
		old:  `newSortField(p.columns.SortedBy())`, new: `newSortField("")`,
		test: "TestOrderOfFlowSchemas",
	},
	{
		name:   "cli/defects-unreported",
		breaks: "larder get prints the known defects of the collection.",
		file:   "internal/cli/input/choose.go",
		old: `		notes = append(notes, n.Text)
`,
		new: `		_ = n
`,
		test: "TestChoose",
	},
	{
		name:   "cli/first-collection-answers",
		breaks: "larder get takes the latest complete collection.",
		file:   "internal/cli/input/choose.go",
		old:    `return entry.Prefer(a.Saved().Info(), b.Saved().Info())`,
		new:    `return 0`,
		test:   "TestChoose",
	},
	{
		name:   "cli/answer-without-end",
		breaks: "A stream of a sync that does not end with its trailer is an error.",
		file:   "internal/source/client.go",
		old:    `&end); err == nil {`,
		new:    `&end); true {`,
		test:   "TestAnswerWithoutEnd",
	},
	{
		name:   "cli/last-block-lost",
		breaks: "A sync also sends the entries after the last full block.",
		file:   "internal/source/server.go",
		old:    `sendErr := out.send(block, false); err == nil {`,
		new:    `sendErr := error(nil); err == nil {`,
		test:   "TestSocketAnswersAsTheSource",
	},
	{
		name:   "cli/status-without-notes",
		breaks: "The status of a collection has its known defects.",
		file:   "internal/source/status.go",
		old:    `, Notes: info.Notes(time.Time{}, false),`,
		new:    `,`,
		test:   "TestNotesOfACollection",
	},
	{
		name:   "sync/ready-when-overwritten",
		breaks: "/readyz fails once another file was copied over the store's.",
		file:   "internal/cli/mirror/service.go",
		old:    `if err := m.store.Err(); err != nil {`,
		new:    `if err := m.store.Err(); false && err != nil {`,
		test:   "TestMirrorOfAnOverwrittenFile",
	},
	{
		name: "cli/unwatched-not-noted", breaks: "larder status has the notes of the informer.",
		file: "internal/cli/mirror/mirror.go",
		old:  `stored.LastContact, stored.Notes = c.LastContact, c.Notes`,
		new:  `stored.LastContact = c.LastContact`,
		test: "TestUnwatchedIsNoted",
	},
	{
		name: "cli/serve-notes-of-the-file", breaks: "serve has the notes of the informer.",
		file: "internal/cli/mirror/mirror.go",
		old:  `return mb.informer.Status().Notes`, new: `return info.Notes(time.Now(), false)`,
		test: "TestUnwatchedIsNoted",
	},
	{
		name: "cli/state-without-notes", breaks: "A state has the notes in a few words.",
		file: "internal/cli/input/state.go", dir: "internal/cli/file",
		old: `briefs = append(briefs, n.Brief)`, new: `_ = n`,
		test: "TestState",
	},
	{
		name: "cli/redaction-is-a-transform", breaks: "A redaction is not noted as a transform.",
		file: "internal/cli/input/state.go", dir: "internal/cli/file",
		old: `		return n.Kind == entry.NoteTransform && redacted
`,
		new: `		return n.Kind == entry.NoteTransform && redacted && false
`,
		test: "TestState",
	},
	{
		name: "cli/page-without-notes", breaks: "The page shows the notes.",
		file: "internal/cli/serving/page.go",
		old: `		one.Notes = append(one.Notes, n.Text)
`,
		new:  ``,
		test: "TestPageStates",
	},
	{
		name: "cli/noted-is-well", breaks: "A collection with a known defect is not well on the page, unless that was meant.",
		file: "internal/cli/serving/page.go",
		old:  `one.Well = one.Well && n.Kind == entry.NoteTransform // a transform is intended`,
		new:  `one.Well = one.Well || n.Kind == entry.NoteTransform`,
		test: "TestPageStates",
	},
	{
		name: "cli/overwritten-is-500", breaks: "The page's state of a file that was copied over is 503.",
		file: "internal/cli/serving/page.go",
		old:  `if errors.Is(err, store.ErrOverwritten) {`, new: `if errors.Is(err, store.ErrClosed) {`,
		test: "TestPageStates",
	},
	{
		name:   "get/field-that-is-false",
		breaks: "A field that is false selects objects that lack it.",
		file:   "internal/discovery/resource.go",
		old:    `one.Value, not = "true", !not`,
		new:    `one.Value = "true"`,
		test:   "TestStoredSelector",
	},
	{
		name:   "cli/token-not-renewed",
		breaks: "A token that the server refuses is read again from the kubeconfig.",
		file:   "internal/cli/cluster/transports.go",
		old: `		t.refused(token)
`,
		new:  ``,
		test: "TestTokenIsRenewed",
	},
	{
		name:   "cli/token-of-another-server",
		breaks: "A token that the kubeconfig has for another server is not sent.",
		file:   "internal/cli/cluster/transports.go",
		old:    `err == nil && config.Host == r.host &&`,
		new:    `err == nil &&`,
		test:   "TestTokenIsRenewed",
	},
	{
		name:   "cli/token-of-another-context",
		breaks: "A sync keeps the context that was the current one when it began.",
		file:   "internal/cli/cluster/transports.go",
		old:    `NewNonInteractiveClientConfig(*raw, currentContext,`,
		new:    `NewNonInteractiveClientConfig(*raw, "",`,
		test:   "TestTokenIsRenewed",
	},
}
