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
	{
		name:   "snapshot/skipped-is-resumable",
		breaks: "A collection of which objects were skipped has to be listed.",
		file:   "snapshot/save_write.go",
		old: `	if err := out.EndWith(as.without(j.saved.Skipped - skipped)); err != nil {
`,
		new: `	if err := out.EndWith(as.without(0 * skipped)); err != nil {
`,
		test: "TestWhatIsSkippedIsMissed",
	},
	{
		name:   "snapshot/cluster-of-two",
		breaks: "A snapshot of two clusters does not say that it is of one.",
		file:   "snapshot/save_write.go",
		old: `		case id != "":
			return ""
`,
		new:  ``,
		test: "TestClusterOfASnapshot",
	},
	{
		name:   "snapshot/digest-not-verified",
		breaks: "Every flipped byte is found before anything wrong is returned.",
		file:   "snapshot/frame.go",
		old: `		return f, "it is not what was written (SHA-256)"
`,
		new: `		_ = end
`,
		test: "TestDamageErrorNamesTheBlock",
	},
	{
		name:   "snapshot/order-not-verified",
		breaks: "A reader returns keys in order, or an error.",
		file:   "snapshot/block.go",
		old: `		if r.Key <= last || n == 0 && r.Key != head.first {
`,
		new: `		if n == 0 && r.Key != head.first {
`,
		test: "TestHostileFiles",
	},
	{
		name:   "snapshot/secrets-in-plain-text",
		breaks: "Secrets are in no snapshot in plain text unless that is asked for.",
		file:   "snapshot/save_write.go",
		old: `	if why := c.Confidential(); why != "" {
`,
		new: `	if why := c.Confidential(); why == "?" {
`,
		test: "TestSaveWithoutSecrets",
	},
	{
		name:   "snapshot/restored-unsealed",
		breaks: "A store with keys seals what the store that was saved sealed.",
		file:   "snapshot/restore.go",
		old: `Seal: c.Sealed && i.CanSeal()})
`,
		new: `Seal: false})
`,
		test: "TestRestoreOfWhatWasSealed",
	},
	{
		name:   "snapshot/part-is-complete",
		breaks: "A collection that was filtered is not complete when it is restored.",
		file:   "snapshot/restore.go",
		old: `	as.Complete = as.Complete && len(c.Filtered) == 0 && !redacted(c)
`,
		new: `	as.Complete = as.Complete && !redacted(c)
`,
		test: "TestRestoreOfAPartIsNotComplete",
	},
	{
		name:   "snapshot/part-is-resumable",
		breaks: "A collection of which something was left out has to be listed.",
		file:   "snapshot/select.go",
		old: `	if c.MustRelist == "" {
		c.MustRelist = strings.Join(why, ", ")
	}
`,
		new:  ``,
		test: "TestRestoreOfAPartIsNotComplete",
	},
	{
		name:   "snapshot/redacted-body-trusted",
		breaks: "What was redacted is listed anew with its bodies.",
		file:   "snapshot/restore.go",
		old: `		c.Attributes.Transform = redactedTransform + c.Attributes.Transform
`,
		new: `		_ = c.Attributes.Transform
`,
		test: "TestRestoreWhatIsMissingIsListed",
	},
	{
		name:   "snapshot/short-store-saved",
		breaks: "A store that has fewer objects than it counts is not saved.",
		file:   "snapshot/save_source.go",
		old: `	if want := s.counts[id.ID()]; err == nil && s.still && after == "" && n != want {
`,
		new: `	if want := s.counts[id.ID()]; err == nil && s.still && after == "" && n > want {
`,
		test: "TestSaveOfAStoreThatLacksObjects",
	},
	{
		name:   "snapshot/diff-by-version-only",
		breaks: "Diff tells an object that another of the same name has replaced.",
		file:   "snapshot/diff.go",
		old: `	if l.UID != r.UID {
		change.Kind = Replaced
	}
`,
		new:  ``,
		test: "TestDiffAgainstModel",
	},
	{
		name:   "snapshot/replaces-a-store",
		breaks: "A save does not replace a store.",
		file:   "snapshot/save_target.go",
		old: `	case isStore:
		return`,
		new: `	case isStore && path == "":
		return`,
		test: "TestSaveReplacesNoStore",
	},
	{
		name:   "snapshot/spool-in-plain-text",
		breaks: "What is spooled of a live server is encrypted.",
		file:   "snapshot/server_spool.go",
		old:    `WriterOptions{Recipients: []age.Recipient{key.Recipient()}})`,
		new:    `WriterOptions{})`,
		test:   "TestSpoolIsSealed",
	},
}
