package main

// factsMutants are deliberate faults in package internal/facts, and in the packages that read and write its data.
var factsMutants = []mutant{
	{
		name: "facts/keys-of-another-cluster", breaks: "Keys of service accounts of another cluster do not stay.",
		file: "internal/facts/refresh.go",
		old:  `stored.Cluster == r.Cluster || stored.Cluster == "" || r.Cluster == "")`, new: `true)`,
		test: "TestOtherCluster",
	},
	{
		name: "facts/schemas-again", breaks: "A schema whose hash is the stored one is not read again.",
		file: "internal/facts/refresh.go",
		old: `if hash == "" || hash != stored[gv] && hash != r.Unstored[gv] {
			all = append(all, gv)`, new: `if true {
			all = append(all, gv)`,
		test: "TestRefresh",
	},
	{
		name: "discovery/no-order", breaks: "Groups come in the server's order.",
		file: "internal/discovery/resource.go",
		old:  `	order := known.Order()`, new: `	order := (*facts.Discovery)(nil).Order()`,
		test: "TestOrder",
	},
	{
		name: "snapshot/unverified-documents", breaks: "A document that is not what was written is damage.",
		file: "snapshot/source.go",
		old:  `string(digest[:]) != d.digest {`, new: `string(digest[:]) != d.digest && false {`,
		test: "TestEveryByteFlipped",
	},
	{
		name: "mirror/schemas-while-listing", breaks: "Schemas are read after the first lists.",
		file: "internal/cli/mirror/learner.go",
		old:  `	if !l.waitFor(ctx, listed) {`, new: `	if ctx.Err() != nil {`,
		test: "TestLearnNothing",
	},
}
