package main

var snapshotMutants = []mutant{
	{
		name:   "snapshot/count-not-verified",
		breaks: "A collection has as many objects as the catalog says.",
		file:   "snapshot/file.go",
		old:    `k == (keyRange{}) && all != seen {`,
		new:    `k == (keyRange{}) && all < 0 {`,
		test:   "TestHostileFiles",
	},
	{
		name:   "snapshot/block-count-not-verified",
		breaks: "A block has the records that the index names.",
		file:   "internal/layout/layout.go",
		old: `	if n != b.Count || last != b.Last {
`,
		new: `	if last != b.Last {
`,
		test: "TestHostileFiles", dir: "snapshot",
	},
	{
		name:   "snapshot/index-not-verified",
		breaks: "A modified index is reported as damaged.",
		file:   "snapshot/file.go",
		old: `	if digest := sha256.Sum256(data); string(digest[:]) != p.digest {
`,
		new: `	if digest := sha256.Sum256(data); len(digest) != len(p.digest) {
`,
		test: "TestHostileFiles",
	},
	{
		name:   "snapshot/index-of-other-blocks",
		breaks: "An index names the blocks that are before it, and all of them.",
		file:   "internal/layout/layout.go",
		old: `	if begin != end {
`,
		new: `	if begin > end {
`,
		test: "TestHostileFiles", dir: "snapshot",
	},
	{
		name:   "snapshot/left-out-is-resumable",
		breaks: "A snapshot of a store that lacks objects cannot be resumed from.",
		file:   "snapshot/source.go",
		old: `	if info.MustRelist == "" && (len(info.LeftOut) > 0 || info.LeftOutMore) {
`,
		new: `	if info.MustRelist == "" && info.LeftOutMore && info.Objects < 0 {
`,
		test: "TestSaveOfLeftOutObjects",
	},
	{
		name:   "snapshot/cluster-of-two",
		breaks: "A snapshot of two clusters names no single cluster.",
		file:   "snapshot/save.go",
		old: `		case id != "":
			return ""
`,
		new:  ``,
		test: "TestClusterOfASnapshot",
	},
	{
		name:   "snapshot/digest-not-verified",
		breaks: "Every flipped byte is found before anything wrong is returned.",
		file:   "snapshot/file.go",
		old: `	if sha256.Sum256(stored) != b.Digest {
`,
		new: `	if len(stored) != b.Stored {
`,
		test: "TestDamageErrorNamesTheBlock",
	},
	{
		name:   "snapshot/order-not-verified",
		breaks: "A reader returns keys in order, or an error.",
		file:   "internal/layout/layout.go",
		old: `		case r.Key <= last:
			return "its keys are not in order"
`,
		new:  ``,
		test: "TestHostileFiles", dir: "snapshot",
	},
	{
		name:   "snapshot/secrets-in-plain-text",
		breaks: "Secrets are in no snapshot in plain text unless that is asked for.",
		file:   "snapshot/save.go",
		old: `	if why := c.Confidential(); why != "" {
`,
		new: `	if why := c.Confidential(); why == "?" {
`,
		test: "TestSaveWithoutSecrets",
	},
	{
		name:   "snapshot/restored-unsealed",
		breaks: "A restore into a store with keys seals the collections that the saved store sealed.",
		file:   "snapshot/restore.go",
		old: `Seal: c.Sealed && j.i.CanSeal()})
`,
		new: `Seal: false})
`,
		test: "TestRestoreSealed",
	},
	{
		name:   "snapshot/part-is-complete",
		breaks: "A filtered collection is restored as incomplete.",
		file:   "snapshot/restore.go",
		old: `	c.Complete = c.Complete && len(c.Filtered) == 0 && !redacted(c)
`,
		new: `	c.Complete = c.Complete && !redacted(c)
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
		breaks: "Redacted objects are listed again with their bodies.",
		file:   "snapshot/restore.go",
		old: `		c.Attributes.Transform = redactedTransform + c.Attributes.Transform
`,
		new: `		_ = c.Attributes.Transform
`,
		test: "TestRestoreOfAPartIsListed",
	},
	{
		name:   "snapshot/diff-by-version-only",
		breaks: "Diff reports an object that was replaced under the same name.",
		file:   "snapshot/diff/diff.go",
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
		file:   "snapshot/save.go",
		old: `	if err == nil && !is {
`,
		new: `	if err == nil && !is && path == "" {
`,
		test: "TestSaveReplacesNoStore",
	},
	{
		name:   "snapshot/spool-in-plain-text",
		breaks: "The spool file of a stream is encrypted.",
		file:   "snapshot/save.go",
		old: `	if s.sealed, err = age.Encrypt(f, key.Recipient()); err != nil {
`,
		new: `	s.sealed = struct {
		io.Writer
		io.Closer
	}{f, io.NopCloser(nil)}
	if err != nil {
`,
		test: "TestSpoolIsSealed",
	},
	{
		name:   "snapshot/no-room-in-the-block",
		breaks: "A record that does not fit into the open block starts a new block.",
		file:   "snapshot/writer.go",
		old:    "if len(w.block)+layout.RecordSize(r) > layout.MaxPart {",
		new:    "if len(w.block)+layout.RecordSize(r) > 2*layout.MaxPart {",
		test:   "TestLargestRecords",
	},
	{
		name:   "snapshot/sealed-by-the-resource",
		breaks: "A sealed collection is confidential also when the store no longer seals its resource.",
		file:   "store/collection.go",
		old:    "return info.Sealed || s.Seals(",
		new:    "return s.Seals(",
		test:   "TestAllResourcesExcludeSealed",
		dir:    "internal/cli/serving",
	},
	{
		name:   "snapshot/keys-of-anybody",
		breaks: "The keys that verify service accounts are restored of a signed snapshot only.",
		file:   "snapshot/restore.go",
		old:    "if facts.IsKeys(name) && len(j.o.SignedBy) == 0 {",
		new:    `if facts.IsKeys(name) && name == "" {`,
		test:   "TestRestoreOfKeys",
	},
	{
		name:   "seed/plain-http",
		breaks: "A seed over http that need not be signed is refused.",
		file:   "snapshot/remote/remote.go",
		old:    `"http://") && len(o.SignedBy) == 0 {`,
		new:    `"http://") && len(o.SignedBy) < 0 {`,
		test:   "TestPlainHTTP",
	},
}
