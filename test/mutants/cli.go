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
}
