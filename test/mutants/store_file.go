package main

var storeFileMutants = []mutant{
	{
		name:   "store/two-clusters",
		breaks: "A store is for one cluster at a time.",
		file:   "store/collections.go",
		old: `	if !exchanged && id != "" {
`,
		new: `	if exchanged && id != "" {
`,
		test: "TestClaimCluster",
	},
	{
		name:   "store/file-for-everybody",
		breaks: "The file can be read by its owner only.",
		file:   "store/internal/boltfile/create.go",
		old: `	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
`,
		new: `	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
`,
		test: "TestOpenMakesAStore",
		dir:  "store",
	},
	{
		name:   "store/directory-for-everybody",
		breaks: "A directory that Open makes is for its owner only.",
		file:   "store/internal/boltfile/open.go",
		old:    "os.Mkdir(dir, 0o700)",
		new:    "os.Mkdir(dir, 0o755)",
		test:   "TestOpenMakesAStore",
		dir:    "store",
	},
	{
		name:   "store/copy-for-everybody",
		breaks: "A copy can be read by its owner only.",
		file:   "store/compact.go",
		old: `	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
`,
		new: `	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
`,
		test: "TestCopyFile",
	},
	{
		name:   "store/document-not-verified",
		breaks: "A damaged document is not returned.",
		file:   "store/document.go",
		old: `	payload, err := format.ParseDocument(name, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.file.Path, err)
	}
`,
		new: `	payload, err := format.ParseDocument(name, data)
	if err != nil && len(data) == 0 {
		return nil, fmt.Errorf("%s: %w", s.file.Path, err)
	}
`,
		test: "TestDamagedDocument",
	},
	{
		name:   "store/mark-link-followed",
		breaks: "A mark that is a symbolic link to another file is not written.",
		file:   "store/internal/boltfile/lock_unix.go",
		old: `	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
`,
		new: `	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
`,
		test: "TestMarkThatIsALink",
		dir:  "store",
	},
	{
		name:   "store/damaged-is-overwritten",
		breaks: "A damaged file is moved aside, not removed.",
		file:   "store/internal/boltfile/open.go",
		old: `	return f.quarantine(reason)
`,
		new: `	return os.Remove(f.real)
`,
		test: "TestWrecked",
		dir:  "store",
	},
	{
		name:   "store/replaced-file-written-on",
		breaks: "Another file under the store's name is noticed, and left alone.",
		file:   "store/internal/boltfile/name.go",
		old: `	case !os.SameFile(h.Identity, named):
`,
		new: `	case !os.SameFile(h.Identity, named) && named.Size() < 0:
`,
		test: "TestReplacedFile",
		dir:  "store",
	},
	{
		name:   "store/iterate-one-page",
		breaks: "Iterate goes through all pages.",
		file:   "store/internal/engine/page.go",
		dir:    "store",
		old: `			if len(records) == PageObjects || size >= PageBytes {
				more = true
				return nil
			}
`,
		new: `			if len(records) == PageObjects || size >= PageBytes {
				return nil
			}
`,
		test: "TestIterateByPages",
	},
	{
		name:   "store/import-without-state",
		breaks: "Import keeps why a collection must be listed.",
		file:   "store/import.go",
		old:    `info.Complete, info.MustRelist = as.Complete, as.MustRelist`,
		new:    `info.Complete = as.Complete`,
		test:   "TestImport",
	},
	{
		name:   "store/crash-at-open-not-counted",
		breaks: "A process that died while it opened the file leaves word of it.",
		file:   "store/internal/boltfile/lock.go",
		old: `	if _, err := m.f.WriteAt([]byte(markText(m.Crashes+1, m.Copies)), 0); err != nil {
`,
		new: `	if _, err := m.f.WriteAt(nil, 0); err != nil {
`,
		test: "TestProcessThatDiedInOpen",
		dir:  "store",
	},
	{
		name:   "store/crash-at-open-not-heeded",
		breaks: "After a crash at open every page is looked at before the file is mapped.",
		file:   "store/internal/boltfile/open.go",
		old: `Verify: mark.Crashes > 0,
`,
		new: `Verify: mark.Crashes > 1000,
`,
		test: "TestMarkLeftBehind",
		dir:  "store",
	},
	{
		name:   "store/failure-leaves-no-mark",
		breaks: "After damage the next process copies the readable part of the file.",
		file:   "store/internal/boltfile/failure.go",
		old: `		f.leaveMark(errors.Is(reason, entry.ErrDamaged))
`,
		new:  ``,
		test: "TestOpenDamagedCollection",
		dir:  "store",
	},
	{
		name:   "store/unclean-not-noticed",
		breaks: "A file that was not closed is looked at as a whole.",
		file:   "store/internal/boltfile/open.go",
		old: `		f.markedClean = true
`,
		new:  ``,
		test: "TestVerifyAfterUncleanClose",
		dir:  "store",
	},
	{
		name:   "store/compact-loses-writes",
		breaks: "Commits during the copy of Compact are in the new file.",
		file:   "store/compact.go",
		old: `	defer release()
`,
		new: `	release()
`,
		test: "TestCompactLosesNoWrite",
	},
	{
		name:   "store/compact-takes-anothers-place",
		breaks: "Compact replaces no file but the store's own.",
		file:   "store/internal/boltfile/exchange.go",
		old: `	case !hasName(old.File, f.real):
`,
		new: `	case f.o.ReadOnly && !hasName(old.File, f.real):
`,
		test: "TestCompactFails",
		dir:  "store",
	},
	{
		name:   "store/compact-leaves-copy",
		breaks: "A compaction that fails leaves no copy.",
		file:   "store/internal/boltfile/handle.go",
		old: `	return errors.Join(h.Close(), os.Remove(h.Path))
`,
		new: `	_ = os.Remove
	return h.Close()
`,
		test: "TestCompactFails",
		dir:  "store",
	},
	{
		name:   "store/salvage-silent-loss",
		breaks: "A collection that Open could not copy whole must be listed.",
		file:   "store/internal/copier/collection.go",
		old: `	c.info.Objects, c.info.MustRelist = copied, format.MustRelistDamaged
`,
		new: `	c.info.Objects = copied
`,
		test: "TestSalvageOfDamagedRecords",
		dir:  "store",
	},
	{
		name:   "store/copy-keeps-what-was-dropped",
		breaks: "Compact and Rekey copy nothing of a collection that was dropped.",
		file:   "store/internal/copier/copier.go",
		old: `		case string(name) == string(format.BucketDropped):
`,
		new:  ``,
		test: "TestCopiesDuringADrop",
		dir:  "store",
	},
	{
		name:   "store/copy-lost-handlers-go-on",
		breaks: "A durable handler that may have missed something in a damaged file begins anew.",
		file:   "store/internal/copier/collection.go",
		old: `	if err != nil || c.Behind[c.name] {
`,
		new: `	if err != nil {
`,
		test: "TestSalvageAndTheChangelog",
		dir:  "store",
	},
	{
		name:   "store/copy-refs-to-the-lost",
		breaks: "Objects lost in a damaged file are not among the newest objects of the rewind check.",
		file:   "store/internal/copier/collection.go",
		old: `([]byte(ref.Key)) == nil
`,
		new: `([]byte(ref.Key)) == nil && c.path == nil
`,
		test: "TestSalvage",
		dir:  "store",
	},
	{
		name:   "store/copy-forwards-only",
		breaks: "Records behind a damaged page are copied from the end.",
		file:   "store/internal/copier/copier.go",
		old: `			r.backwards = true
`,
		new: `			return false, nil
`,
		test: "TestSalvage",
		dir:  "store",
	},
	{
		name:   "store/quarantine-removes-the-new-one",
		breaks: "The file that was moved aside now is kept whatever the clock says.",
		file:   "store/internal/boltfile/name.go",
		old: `	old := slices.DeleteFunc(beside(path, format.SuffixDamaged), func(other string) bool { return other == name })
	for _, extra := range old[:max(len(old)-(keepDamaged-1), 0)] {
`,
		new: `	old := beside(path, format.SuffixDamaged)
	for _, extra := range old[:max(len(old)-keepDamaged, 0)] {
`,
		test: "TestQuarantineAfterTheClockWasSetBack",
		dir:  "store",
	},
	{
		name:   "store/short-collection-read",
		breaks: "A collection of which fewer objects are found than it counts is damaged.",
		file:   "store/internal/engine/entries.go",
		old: `	return r.Counted(c.records, st.Objects)
`,
		new: `	return r.Counted(st.Objects, st.Objects)
`,
		test: "TestShortLeaf",
		dir:  "store",
	},
}
