package main

// storeDiskMutants are deliberate faults that break promises about the changelog, sealing and checksums of a store
// file.
var storeDiskMutants = []mutant{
	{
		name:   "store/uid-change-without-tombstone",
		breaks: "An object that was replaced under its key is reported as deleted: it has a tombstone.",
		file:   "store/internal/engine/writer.go",
		old: `	if old.Found && old.UID != x.UID {
		if err := w.addTombstone(x.Key, old, nil); err != nil {
`,
		new: `	if old.Found && old.UID != x.UID && x.UID == "" {
		if err := w.addTombstone(x.Key, old, nil); err != nil {
`,
		test: "TestCursorReadsChanges",
		dir:  "store",
	},
	{
		name:   "store/trim-before-acknowledged",
		breaks: "A tombstone stays until every handler has passed it.",
		file:   "store/internal/changelog/writer.go",
		old: `		passed = min(passed, low(c))
`,
		new: `		passed = min(passed, low(c)+1)
`,
		test: "TestCursorOverARestart",
		dir:  "store",
	},
	{
		name:   "store/trim-by-the-fastest",
		breaks: "A tombstone stays until the slowest handler has passed it.",
		file:   "store/internal/changelog/writer.go",
		old: `	for _, c := range w.cursors.all {
		passed = min(passed, low(c))
	}
`,
		new: `	for _, c := range w.cursors.all {
		if passed == math.MaxUint64 {
			passed = 0
		}
		passed = max(passed, low(c))
	}
`,
		test: "TestCursorBehindTheTombstoneLimit",
		dir:  "store",
	},
	{
		name:   "store/behind-not-reported",
		breaks: "A handler behind dropped tombstones is reset.",
		file:   "store/internal/changelog/writer.go",
		old: `		if unread {
			lost = seq
		}
`,
		new:  ``,
		test: "TestCursorBehindTheTombstoneLimit",
		dir:  "store",
	},
	{
		name:   "store/acknowledged-of-before-a-reset",
		breaks: "An acknowledgement of before a reset is void.",
		file:   "store/internal/changelog/cursors.go",
		old: `	case one.resets != resets:
		return consumer.ErrReset
`,
		new:  ``,
		test: "TestCursorBehindTheTombstoneLimit",
		dir:  "store",
	},
	{
		name:   "store/tombstone-of-older-state",
		breaks: "A tombstone has the last state that the DELETED event carried.",
		file:   "store/internal/engine/writer.go",
		old:    `if x != nil && x.UID == old.UID && x.UID != "" && x.Payload != nil {`,
		new:    `if x != nil && x.UID == old.UID && x.UID != "" && x.Payload == nil {`,
		test:   "TestCursorReadsTheLastState",
		dir:    "store",
	},
	{
		name:   "store/changes-of-another-store",
		breaks: "A sequence number beyond the last change is refused.",
		file:   "store/internal/engine/changes.go",
		old: `		case after < k.Oldest || after > k.Last:
`,
		new: `		case after < k.Oldest:
`,
		test: "TestChangesSinceOffset",
		dir:  "store",
	},
	{
		name:   "store/tombstones-for-ever",
		breaks: "A tombstone is kept for a week for an absent consumer.",
		file:   "store/internal/changelog/writer.go",
		old: `		needed := unread && age <= maxAge || retain > 0 && age <= retain
`,
		new: `		needed := unread || retain > 0 && age <= retain
`,
		test: "TestChangesRetention",
		dir:  "store",
	},
	{
		name:   "store/equal-object-gets-new-seq",
		breaks: "An object that a rewriting list finds equal keeps its seq.",
		file:   "store/internal/engine/writer.go",
		old: `	if x.SameObject {
`,
		new: `	if x.SameObject && x.Del {
`,
		test: "TestChangelogOmitsEqualObjects",
		dir:  "store",
	},
	{
		name:   "store/place-during-commit-lost",
		breaks: "An acknowledgement during a commit is part of the next one.",
		file:   "store/internal/changelog/cursors.go",
		old: `	c.written = max(c.written, s.version)
`,
		new: `	c.written = c.version
`,
		test: "TestPositionIsInTheNextCommit",
		dir:  "store",
	},
	{
		name:   "store/place-ahead-of-the-file",
		breaks: "A commit that fails does not count a place as written.",
		file:   "store/internal/engine/commit.go",
		dir:    "store",
		old: `	s.c.cursors.Written(s.cursors, err)
`,
		new: `	s.c.cursors.Written(s.cursors, nil)
`,
		test: "TestPositionIsInTheNextCommit",
	},
	{
		name:   "store/place-lost-at-close",
		breaks: "Acknowledgements before Close are in the file after it.",
		file:   "store/internal/engine/collection.go",
		dir:    "store",
		old: `	if _, dirty := c.Read.Memtable.Current(); !dirty && !c.cursors.Dirty() {
`,
		new: `	if _, dirty := c.Read.Memtable.Current(); !dirty {
`,
		test: "TestPositionIsInTheNextCommit",
	},
	{
		name:   "store/trim-failing",
		breaks: "A tombstone whose delete a handler has failed on stays, although it has passed later ones.",
		file:   "store/internal/changelog/cursors.go",
		old: `		low = min(low, seq-1)
`,
		new: `		_ = seq
`,
		test: "TestTombstoneOfAFailingDelete",
		dir:  "store",
	},
	{
		name:   "store/feed-page-skips",
		breaks: "Pages of the changelog follow each other without a gap.",
		file:   "store/internal/engine/changes.go",
		old: `	if p.End = p.state.Log.Last(); p.More {
`,
		new: `	if p.End = p.state.Log.Last(); p.More && len(p.found) == 0 {
`,
		test: "TestChangelogInPages",
		dir:  "store",
	},
	{
		name:   "store/loss-not-delivered-to-handlers",
		breaks: "After a damaged record was replaced every durable handler begins anew.",
		file:   "store/internal/changelog/writer.go",
		old: `	w.broken = true
`,
		new:  ``,
		test: "TestCommitOverADamagedRecord",
		dir:  "store",
	},
	{
		name:   "store/readers-behind-not-reported",
		breaks: "A reader behind dropped deletes is refused (SinceError).",
		file:   "store/internal/changelog/writer.go",
		old: `		w.state.Lacks = max(w.state.Lacks, seq)
`,
		new:  ``,
		test: "TestChangesRetention",
		dir:  "store",
	},
	{
		name:   "store/created-of-another-object",
		breaks: "An object is created when it was first stored, not when another of the same key was.",
		file:   "store/internal/engine/writer.go",
		old: `	if old.Found && old.UID == x.UID {
		h.Created = old.FirstSeq()
`,
		new: `	if old.Found {
		h.Created = old.FirstSeq()
`,
		test: "TestChangesSinceOffset",
		dir:  "store",
	},
	{
		name:   "store/seq-filed-twice",
		breaks: "The changelog has each live object once, at its last seq.",
		file:   "store/internal/changelog/writer.go",
		old: `	if old != 0 && old != seq {
		if err := w.log.seqs.Delete(format.SeqKey(old)); err != nil {
			return err
		}
	}
	return w.log.seqs.Put(`,
		new:  "\treturn w.log.seqs.Put(",
		test: "TestCursorReadsChanges",
		dir:  "store",
	},
	{
		name:   "store/behind-not-set-back-in-memory",
		breaks: "A handler that a commit has set back learns of it without a restart.",
		file:   "store/internal/changelog/cursors.go",
		old: `		if one := c.all[name]; one != nil {
			c.resetLocked(one, anew)
		}
`,
		new: `		if one := c.all[name]; one != nil {
			_ = anew
		}
`,
		test: "TestMemoryKnowsAResetBeforeTheNextWrite",
		dir:  "store",
	},
	{
		name:   "store/wrong-key-accepted",
		breaks: "A wrong key is refused and changes nothing.",
		file:   "store/internal/crypt/ring.go",
		old: `	if err == nil && subtle.ConstantTimeCompare(one.check, stored.Check) != 1 {
`,
		new: `	if err == nil && subtle.ConstantTimeCompare(one.check, one.check) != 1 {
`,
		test: "TestKeyProvider",
		dir:  "store",
	},
	{
		name:   "store/key-in-the-file-late",
		breaks: "The file has a data key before anything that is sealed with it.",
		file:   "store/internal/engine/writer.go",
		old: `	if err := t.Read.Coder.Ensure(tx); err != nil {
`,
		new: `	if st.Objects <= 1000 {
	} else if err := t.Read.Coder.Ensure(tx); err != nil {
`,
		test: "TestSeals",
		dir:  "store",
	},
	{
		name:   "store/rekey-leaves-plain-text",
		breaks: "Rekey seals objects that were stored without a key.",
		file:   "store/internal/copier/collection.go",
		old: `	if c.Fresh != nil && (c.info.Sealed || c.Seals(c.info.Identity().GroupResource())) {
`,
		new: `	if c.Fresh != nil && !c.info.PlainText && (c.info.Sealed || c.Seals(c.info.Identity().GroupResource())) {
`,
		test: "TestSealingOverPlainText",
		dir:  "store",
	},
	{
		name:   "store/leaves-not-verified",
		breaks: "A check verifies leaves as pages: flipped bits that no reader notices are found.",
		file:   "store/internal/check/collection.go",
		old: `			return c.pages(ctx, b, low, high)
`,
		new: `			_ = low
			return nil
`,
		test: "TestCheckFindsPages",
		dir:  "store",
	},
	{
		name:   "store/overflow-pages-not-verified",
		breaks: "A leaf has no more overflow pages than its elements take: bbolt would free pages of others with it.",
		file:   "internal/boltcheck/walk.go",
		old: `	if most := uint64(end) / uint64(pageSize); p.overflow > most {
`,
		new: `	if most := uint64(end) / uint64(pageSize); p.overflow > most+4 {
`,
		test: "TestRange",
	},
	{
		name:   "store/checksum-without-key",
		breaks: "A record that damage files under another key is not served.",
		file:   "store/internal/format/record.go",
		old: `	sum := sumSized(sumSized(0, table, collection), table, key)
`,
		new: `	sum := sumSized(sumSized(0, table, collection), table, key[:0])
`,
		test: "TestRecordBelongsToOneCollectionAndKey",
	},
	{
		name:   "store/checksum-without-collection",
		breaks: "A record of another collection is not served.",
		file:   "store/internal/format/record.go",
		old: `	sum := sumSized(sumSized(0, table, collection), table, key)
`,
		new: `	sum := sumSized(sumSized(0, table, collection[:0]), table, key)
`,
		test: "TestRecordBelongsToOneCollectionAndKey",
	},
	{
		name:   "store/checksum-not-verified",
		breaks: "A read verifies the checksum of each record.",
		file:   "store/internal/format/record.go",
		old: `		return nil, nil, errChecksum
`,
		new: `		_ = errChecksum
`,
		test: "TestRecordDetectsEveryFlippedBit",
	},
	{
		name:   "store/seal-without-place",
		breaks: "A sealed record cannot be put in the place of another key.",
		file:   "store/internal/format/record.go",
		old:    "[]string{string(bucket), collection, key, string(head)}",
		new:    "[]string{string(bucket), collection, string(head)}",
		test:   "TestSealedRecordsThatWereTamperedWith",
		dir:    "store",
	},
	{
		name:   "store/seal-without-header",
		breaks: "The header of a sealed record (UID, resourceVersion) cannot be exchanged.",
		file:   "store/internal/format/record.go",
		old:    "[]string{string(bucket), collection, key, string(head)}",
		new:    "[]string{string(bucket), collection, key}",
		test:   "TestSealedRecordsThatWereTamperedWith",
		dir:    "store",
	},
	{
		name:   "store/seal-without-collection",
		breaks: "A sealed record cannot be put into another collection.",
		file:   "store/internal/format/record.go",
		old:    "[]string{string(bucket), collection, key, string(head)}",
		new:    "[]string{string(bucket), key, string(head)}",
		test:   "TestSealedRecordOfAnotherCollection",
		dir:    "store",
	},
	{
		name:   "store/seal-without-bucket",
		breaks: "A sealed tombstone cannot be read as an object.",
		file:   "store/internal/format/record.go",
		old:    "[]string{string(bucket), collection, key, string(head)}",
		new:    "[]string{collection, key, string(head)}",
		test:   "TestSealedRecordIsBound",
		dir:    "store/internal/crypt",
	},
	{
		name:   "store/token-same-in-every-index",
		breaks: "Equal values of two indexes have different tokens.",
		file:   "store/internal/crypt/ring.go",
		old:    "format.AppendSized(format.AppendSized(nil, collection), index)",
		new:    "format.AppendSized(nil, collection)",
		test:   "TestTokensHideValues",
		dir:    "store",
	},
}
