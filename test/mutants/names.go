package main

// namesMutants are mutants of what names of resources mean.
var namesMutants = []mutant{
	{
		name:   "names/any-group",
		breaks: "A name means the resource of the first group in the server's order, and no other one.",
		file:   "internal/source/resource.go",
		old:    "return !r.Retired && !slices.Contains(r.Elsewhere, name)",
		new:    "return !r.Retired",
		dir:    "internal/cli/input",
		test:   "TestMeanings",
	},
	{
		name:   "names/not-as-mirrored",
		breaks: "A name by which a resource was mirrored means it while the other one is not stored.",
		file:   "internal/source/meaning.go",
		old:    "		func(r Resource) bool { return slices.Contains(r.RequestedAs, name) },\n",
		new:    "",
		dir:    "internal/cli/input",
		test:   "TestMeanings",
	},
	{
		name:   "names/store-before-server",
		breaks: "The server is asked what a name means before the store is.",
		file:   "internal/cli/cluster/discover.go",
		old:    "	if err := r.ask(ctx); err != nil {\n		return r.offline(arg, err)",
		new: "	if stored, ok := source.Match(arg, r.stored); ok {\n		return []input.Resource{stored}, nil\n	}\n" +
			"	if err := r.ask(ctx); err != nil {\n		return r.offline(arg, err)",
		test: "TestResolve",
	},
	{
		name:   "names/retired-by-its-name",
		breaks: "A version that the server has replaced is called by its full name alone.",
		file:   "internal/source/resource.go",
		old:    "return !r.Retired && qualifier == r.Group",
		new:    "return qualifier == r.Group",
		dir:    "internal/cli/input",
		test:   "TestMeanings",
	},
}
