package main

var storeOpenMutants = []mutant{
	{
		name:   "store/another-file-is-read",
		breaks: "A file that was copied over the open one is not read.",
		file:   "store/internal/boltfile/handle.go",
		old: `	case !bytes.Equal(b.Get(format.KeyFileID), h.id):
`,
		new: `	case !bytes.Equal(b.Get(format.KeyFileID), h.id) && tx.Writable():
`,
		test: "TestOverwrittenFile",
		dir:  "store",
	},
	{
		name:   "store/older-copy-is-read",
		breaks: "An older copy of the file that was copied over it is not read.",
		file:   "store/internal/boltfile/handle.go",
		old: `	case at < committed || at > h.committed.Load()+1:
`,
		new: `	case at > h.committed.Load()+1:
`,
		test: "TestOverwrittenFile",
		dir:  "store",
	},
	{
		name:   "store/copy-of-before-a-compaction-is-read",
		breaks: "A copy from before a compaction that was copied over the file is not read.",
		file:   "store/internal/boltfile/handle.go",
		old: `	case at < committed || at > h.committed.Load()+1:
`,
		new: `	case at < committed:
`,
		test: "TestOverwrittenFile",
		dir:  "store",
	},
	{
		name:   "store/overwritten-file-is-used-again",
		breaks: "A file that was overwritten is not used again, whatever is copied over it next.",
		file:   "store/internal/boltfile/current.go",
		old: `	if errors.Is(c.failure, ErrOverwritten) {
		return nil, c.failure
	}
`,
		new:  ``,
		test: "TestOverwrittenFile",
		dir:  "store",
	},
	{
		name:   "store/overwritten-file-at-rest",
		breaks: "A file that is neither read nor written is looked at every ten seconds.",
		file:   "store/open.go",
		old: `	s.file.Go("verify the identity of the file", s.verifyIdentity)
`,
		new:  ``,
		test: "TestOverwrittenFileAtRest",
		dir:  "store",
	},
	{
		name:   "store/damaged-file-stays",
		breaks: "Open says that a damaged file cannot be moved aside.",
		file:   "store/internal/boltfile/open.go",
		old: `		return fmt.Errorf("it is damaged (%w) and cannot be moved aside: %w", reason, err)
`,
		new: `		return nil
`,
		test: "TestDamagedFileThatCannotBeMovedAside",
		dir:  "store",
	},
}
