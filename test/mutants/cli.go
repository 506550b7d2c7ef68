package main

// cliMutants are those of the command line.
var cliMutants = []mutant{
	{
		name: "cli/error-every-second", breaks: "An error that lasts is written once a minute.",
		file: "internal/cli/mirror/lines.go",
		old:  `!ok || now.Sub(at) >= quietFor {`, new: `!ok || now.Sub(at) >= 0 {`,
		test: "TestLogOfManyCollections",
	},
	{
		name: "cli/line-for-each-forbidden", breaks: "One note has all forbidden resources.",
		file: "internal/cli/mirror/lines.go",
		old:  `if !first && last.what != what && !input.Forbidden(c) {`,
		new:  `if !first && last.what != what || input.Forbidden(c) {`,
		test: "TestLogOfManyCollections",
	},
	{
		name: "cli/forbidden-noted-again", breaks: "A resource that is forbidden again is not noted again.",
		file: "internal/cli/mirror/lines.go",
		old:  `!slices.Contains(p.noted, id) })`, new: `id != "" })`,
		test: "TestLogOfManyCollections",
	},
	{
		name:   "cli/defects-untold",
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
		name:   "cli/status-without-notes",
		breaks: "The status of a collection has its known defects.",
		file:   "internal/source/status.go",
		old:    `, Notes: info.Notes(time.Time{}),`,
		new:    `,`,
		test:   "TestNotesOfACollection",
	},
	{
		name:   "cli/transform-not-in-the-state",
		breaks: "larder status says that a transform has changed the objects.",
		file:   "internal/cli/input/state.go",
		old:    `return n.Kind == entry.NoteTransform })`,
		new:    `return n.Kind == entry.NoteAge })`,
		test:   "TestState",
		dir:    "internal/cli/file",
	},
	{
		name:   "sync/ready-when-overwritten",
		breaks: "/readyz fails once another file was copied over the store's.",
		file:   "internal/cli/mirror/service.go",
		old:    `errors.Is(err, store.ErrOverwritten) {`,
		new:    `errors.Is(err, store.ErrReplaced) {`,
		test:   "TestMirrorOfAnOverwrittenFile",
	},
}
