package main

var snapshotMutants = []mutant{
	{
		name:   "snapshot/count-not-verified",
		breaks: "A collection has as many objects as its end says.",
		file:   "snapshot/reader.go",
		old: `	if c.Objects != r.seen.Objects || c.Bytes != r.seen.Bytes || c.Blocks != r.seen.Blocks {
`,
		new: `	if c.Bytes != r.seen.Bytes || c.Blocks != r.seen.Blocks {
`,
		test: "TestHostileFiles",
	},
	{
		name:   "snapshot/block-count-not-verified",
		breaks: "A block has the records that its head names.",
		file:   "snapshot/block.go",
		old: `	if n == 0 || n != head.count || last != head.last {
`,
		new: `	if n == 0 || last != head.last {
`,
		test: "TestHostileFiles",
	},
	{
		name:   "snapshot/tail-not-verified",
		breaks: "A stream whose index is not that of its collections is damaged.",
		file:   "snapshot/reader.go",
		old: `	case !bytes.Equal(f.body, r.tail):
		return r.damage(f.frameHead, "the index is not that of the collections before it")
`,
		new:  ``,
		test: "TestHostileFiles",
	},
	{
		name:   "snapshot/index-block-not-verified",
		breaks: "A block that is read by the index is the one that the index names.",
		file:   "snapshot/file.go",
		old: `		if wrong == "" && (b.head != blockHead{uint64(n), e.count, e.first, e.last} || fr.digest != e.digest) {
`,
		new: `		if wrong == "" && b.head.collection != uint64(n) {
`,
		test: "TestIndexOfOtherBlocks",
	},
	{
		name:   "snapshot/left-out-is-resumable",
		breaks: "A snapshot of a store that lacks objects cannot be resumed from.",
		file:   "snapshot/save_source.go",
		old: `	if info.MustRelist == "" && (len(info.LeftOut) > 0 || info.LeftOutMore) {
`,
		new: `	if info.MustRelist == "" && info.LeftOutMore && info.Objects < 0 {
`,
		test: "TestSaveOfAStoreThatLeftObjectsOut",
	},
}
