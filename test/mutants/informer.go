package main

var informerMutants = []mutant{
	{
		name:   "informer/lost-object-not-told",
		breaks: "What a repair of the file has lost, and the server does not have any more, comes as OnDelete.",
		file:   "informer/list.go",
		old: `			out = append(out, store.Change{Type: cache.Deleted, Key: key})
`,
		new:  ``,
		test: "TestLostThenDeleted",
	},
	{
		name:   "informer/rewritten-body-not-told",
		breaks: "A body that a rewriting list has changed is told, although its resourceVersion is the same.",
		file:   "informer/list.go",
		old: `	p.tell(changes, p.rewrites)
`,
		new: `	p.tell(changes, false)
`,
		test: "TestAnotherBodyOfTheSameVersion",
	},
}
