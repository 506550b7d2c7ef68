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
	{
		name:   "names/away-is-fatal",
		breaks: "A sync goes on without the resources of an API that is away, and mirrors them once it answers.",
		file:   "internal/cli/mirror/follow.go",
		old:    "f.offers == nil || f.offers.Failed != nil ||",
		new:    "f.offers == nil ||",
		test:   "TestUnavailableAPI",
		dir:    "internal/cli",
	},
	{
		name:   "names/retired-goes-on",
		breaks: "A version that the server has replaced is not mirrored any more.",
		file:   "internal/cli/mirror/follow.go",
		old:    "	m.retire(ctx, &offers)\n",
		new:    "",
		test:   "TestRetiredVersion",
		dir:    "internal/cli",
	},
	{
		name:   "names/defined-once",
		breaks: "The definition of a custom resource is read again after each list.",
		file:   "internal/cli/mirror/definition.go",
		old:    "now != lists {",
		new:    "lists < 0 {",
		test:   "TestRedefined",
		dir:    "internal/cli",
	},
}
