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
		breaks: "An overwritten file is not used again, whatever file is copied over it next.",
		file:   "store/internal/boltfile/file.go",
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
	{
		name:   "store/upkeep-of-a-read-only-store",
		breaks: "A store that is open for reading does no work in the background.",
		file:   "store/open.go",
		old: `	if s.ReadOnly() {
`,
		new: `	if s.ReadOnly() && s.file == nil {
`,
		test: "TestReadOnlyStoreHasNoUpkeep",
	},
	{
		name:   "store/room-for-the-making-of-room",
		breaks: "Work that frees pages and finds no room does not ask for more of the same work.",
		file:   "store/open.go",
		old:    `errors.Is(err, ErrNoSpace) && !w.Frees {`,
		new:    `errors.Is(err, ErrNoSpace) {`,
		test:   "TestTrimmingWithoutSpace",
	},
	{
		name:   "store/open-never-gives-up",
		breaks: "Open ends if the file is damaged each time it is made anew.",
		file:   "store/internal/boltfile/open.go",
		old: `		for range openTries {
`,
		new: `		for range 100 * openTries {
`,
		test: "TestOpenGivesUp",
	},
	{
		name:   "store/no-file-to-read-not-said",
		breaks: "Opening for reading says that it makes no file.",
		file:   "store/internal/boltfile/open.go",
		old: `	if isMissing(err) {
`,
		new: `	if isMissing(err) && locked != nil {
`,
		test: "TestReadOnly",
		dir:  "store",
	},
	{
		name:   "store/unlock-fault-is-damage",
		breaks: "A temporary read error of the data keys' page does not mark the file as damaged.",
		file:   "store/internal/boltfile/open.go",
		old:    `errors.Join(o.judge(err), h.Close())`,
		new:    `errors.Join(err, h.Close())`,
		test:   "TestUnlockThatMeetsAFault",
	},
	{
		name:   "store/failed-unlock-leaves-the-lock",
		breaks: "A file whose data keys cannot be unwrapped is unlocked.",
		file:   "store/internal/boltfile/open.go",
		old:    `errors.Join(o.judge(err), h.Close())`,
		new:    `o.judge(err)`,
		test:   "TestUnlockThatMeetsAFault",
	},
	{
		name:   "store/full-disk-not-opened",
		breaks: "A store on a full disk can be opened and read.",
		file:   "store/internal/boltfile/open.go",
		old: `	case errors.Is(err, ErrNoSpace):
`,
		new: `	case errors.Is(err, ErrNoSpace) && o.ReadOnly:
`,
		test: "TestOpenWhereNothingCanBeWritten",
		dir:  "store",
	},
	{
		name:   "store/failing-disk-not-opened",
		breaks: "A store on a disk that fails can be opened and read.",
		file:   "store/internal/boltfile/open.go",
		old: `	case errors.Is(err, ErrOutcomeUnknown):
`,
		new: `	case errors.Is(err, ErrOutcomeUnknown) && o.ReadOnly:
`,
		test: "TestOpenWhereNothingCanBeWritten",
		dir:  "store",
	},
	{
		name:   "store/clean-after-a-full-disk",
		breaks: "A file that was opened on a full disk and written later does not count as cleanly closed.",
		file:   "store/internal/boltfile/transaction.go",
		old: `	if err != nil {
		f.o.WriteFailed(w, err)
`,
		new: `	if f.markedClean = false; err != nil {
		f.o.WriteFailed(w, err)
`,
		test: "TestOpenWhereNothingCanBeWritten",
		dir:  "store",
	},
	{
		name:   "store/unseen-branches-not-verified",
		breaks: "Branches that Open leaves out are verified in the background.",
		file:   "store/internal/boltfile/open.go",
		old:    `!o.root.clean || o.Unseen, o.root.clean`,
		new:    `!o.root.clean, o.root.clean`,
		test:   "TestOpenLeavesBranchesToTheBackground",
		dir:    "store",
	},
	{
		name:   "store/failed-sync-at-open",
		breaks: "Nothing is written to a file whose last commit may not be on the disk.",
		file:   "store/internal/boltfile/open.go",
		old:    `		return f.failUnknown(h,`,
		new:    `		return fmt.Errorf("%w", `,
		test:   "TestSyncThatFails",
	},
	{
		name:   "store/link-in-place-of-the-file",
		breaks: "A symbolic link that takes the place of the file is refused.",
		file:   "store/internal/boltfile/open.go",
		old: `	info, err := os.Lstat(f.real)
`,
		new: `	info, err := os.Stat(f.real)
`,
		test: "TestLinkInPlaceOfTheFile",
	},
	{
		name:   "store/parent-not-made",
		breaks: "The error of a directory that cannot be made names the parent that could not be made.",
		file:   "store/internal/boltfile/open.go",
		old: `	if err := MakeDir(parent); err != nil {
		return err
	}
`,
		new: `	_ = MakeDir(parent)
`,
		test: "TestDirectoryThatCannotBeMade",
		dir:  "store",
	},
	{
		name:   "store/directory-not-made",
		breaks: "Open fails with the cause if it cannot make the directory.",
		file:   "store/internal/boltfile/open.go",
		old: `	if err := MakeDir(filepath.Dir(f.Path)); err != nil {
		return err
	}
`,
		new: `	_ = MakeDir(filepath.Dir(f.Path))
`,
		test: "TestDirectoryThatCannotBeMade",
		dir:  "store",
	},
	{
		name:   "store/unreadable-directory-refused",
		breaks: "A store can be made in a directory that may be written and not be read.",
		file:   "store/internal/boltfile/open.go",
		old: `	if err := SyncDir(dir); !errors.Is(err, os.ErrPermission) {
`,
		new: `	if err := SyncDir(dir); err != nil {
`,
		test: "TestDirectoryThatCannotBeListed",
		dir:  "store",
	},
	{
		name:   "store/new-directory-not-synced",
		breaks: "A new directory whose name cannot be synced is an error.",
		file:   "store/internal/boltfile/open.go",
		old: `		return fmt.Errorf("sync the directory %s: %w", parent, err)
`,
		new: `		_ = parent
`,
		test: "TestOpenWithoutFileDescriptors",
		dir:  "store",
	},
	{
		name:   "store/little-address-space",
		breaks: "A process without the address space of a large mapping opens a good file.",
		file:   "store/internal/boltfile/opening.go",
		old:    `boltcheck.Open(o, info.Size())`,
		new:    `boltcheck.Open(o.File, info.Size())`,
		test:   "TestAddressSpaceLimit",
		dir:    "store",
	},
	{
		name:   "store/root-page-unreadable-is-foreign",
		breaks: "A root page that cannot be read does not make the file one of another program.",
		file:   "store/internal/boltfile/opening.go",
		old: `	if _, err := o.File.ReadAt(page, int64(pages.Root)*int64(pages.PageSize)); err != nil {
		return err
	}
`,
		new: `	_, _ = o.File.ReadAt(page, int64(pages.Root)*int64(pages.PageSize))
`,
		test: "TestClosedFile",
	},
	{
		name:   "store/lock-taken-by-another-not-said",
		breaks: "A lock that another process takes in between is ErrLocked.",
		file:   "store/internal/boltfile/opening.go",
		old: `	case errors.Is(err, berrors.ErrTimeout):
`,
		new: `	case errors.Is(err, berrors.ErrTimeout) && o.File != nil:
`,
		test: "TestJudge",
	},
	{
		name:   "store/format-version-not-verified",
		breaks: "A damaged format version is damage, and not a newer format.",
		file:   "store/internal/boltfile/root.go",
		old:    `crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[8:]) {`,
		new:    `crc32.MakeTable(crc32.Castagnoli)) == 1 {`,
		test:   "TestFormatVersionThatIsDamaged",
		dir:    "store",
	},
	{
		name:   "store/overwritten-file-is-written",
		breaks: "A write notices that another file was copied over the open one.",
		file:   "store/internal/boltfile/handle.go",
		old: `		if err := h.verifyIdentity(tx, h.committed.Load()); err != nil {
`,
		new: `		if err := h.verifyIdentity(tx, h.committed.Load()); err != nil && h.Stuck.Load() {
`,
		test: "TestWriteToAnOverwrittenFile",
		dir:  "store",
	},
	{
		name:   "store/unreadable-meta-pages",
		breaks: "A transaction fails if the meta pages cannot be read.",
		file:   "store/internal/boltfile/handle.go",
		old: `	case err != nil:
		return nil, fmt.Errorf("read %s`,
		new: `	case err != nil && writable && h.Stuck.Load():
		return nil, fmt.Errorf("read %s`,
		test: "TestFileThatCannotBeRead",
		dir:  "store",
	},
	{
		name:   "store/moved-aside-over-another",
		breaks: "A file that is moved aside replaces none that was moved aside before.",
		file:   "store/internal/boltfile/name.go",
		old: `		name = fmt.Sprintf("%s-%d", stamp, n)
`,
		new: `		name = fmt.Sprintf("%s-%d", stamp, n)[:len(stamp)]
		break
`,
		test: "TestQuarantineTwiceInOneMoment",
		dir:  "store",
	},
	{
		name:   "store/torn-count-in-a-mark",
		breaks: "A torn count in a mark counts as 1.",
		file:   "store/internal/boltfile/lock.go",
		old:    `err == nil && n > 0 {`,
		new:    `err == nil {`,
		test:   "TestCountInAMark",
	},
	{
		name:   "store/name-that-cannot-be-looked-up",
		breaks: "A file whose name cannot be looked up is not written.",
		file:   "store/internal/boltfile/name.go",
		old: `		return false, fmt.Errorf("%s: %w", f.Path, err)
`,
		new: `		return false, nil
`,
		test: "TestDirectoryThatBecomesAFile",
		dir:  "store",
	},
	{
		name:   "store/name-taken-without-links",
		breaks: "A file gets its name also where there are no hard links.",
		file:   "store/internal/boltfile/name.go",
		old: `	return os.Rename(from, to)
`,
		new: `	return err
`,
		test: "TestTakeNameWithoutLinks",
	},
	{
		name:   "store/failed-creation-leaves-a-file",
		breaks: "A new file that cannot get its name is removed.",
		file:   "store/internal/boltfile/create.go",
		old: `errors.Join(err, os.Remove(name)))
	}
	return nil
`,
		new: `err)
	}
	return nil
`,
		test: "TestRenamesThatFail",
	},
	{
		name:   "store/damage-found-by-a-check-ignored",
		breaks: "Damage that a reader of the pages finds stops writing.",
		file:   "store/internal/boltfile/transaction.go",
		old:    `return OwnErrors(fn(h, info.Size(), uint64(tx.ID())))`,
		new:    `return fn(h, info.Size(), uint64(tx.ID()))`,
		test:   "TestPagesThatVanish",
	},
	{
		name:   "store/unreadable-file-is-locked",
		breaks: "A file that may not be read is an error with that cause.",
		file:   "store/internal/boltfile/lock.go",
		old: `		if err != nil {
			return nil, err
		}
		ok, err`,
		new: `		if err != nil {
			return nil, locked(path)
		}
		ok, err`,
		test: "TestFileThatMayNotBeRead",
		dir:  "store",
	},
	{
		name:   "store/half-a-data-key",
		breaks: "A data key of the wrong length is not used.",
		file:   "store/internal/crypt/ring.go",
		old: `	if len(raw) != seal.KeySize {
`,
		new: `	if len(raw) == 0 {
`,
		test: "TestKeyProviderThatFailsLater",
		dir:  "store",
	},
	{
		name:   "store/no-current-key",
		breaks: "Open fails if the provider does not name its current key.",
		file:   "store/internal/crypt/ring.go",
		old: `		return nil, fmt.Errorf("ask for the current key: %w", err)
`,
		new: `		_ = id
`,
		test: "TestKeyProviderThatFailsLater",
		dir:  "store",
	},
	{
		name:   "store/data-key-not-wrapped",
		breaks: "Open fails if the provider does not wrap a new data key.",
		file:   "store/internal/crypt/ring.go",
		old: `	if err != nil {
		clear(raw)
`,
		new: `	if err != nil && wrapped != nil {
		clear(raw)
`,
		test: "TestKeyProviderThatFailsLater",
		dir:  "store",
	},
	{
		name:   "store/import-over-a-new-file",
		breaks: "An import that has waited for another process does not replace the file that this one made.",
		file:   "store/internal/boltfile/create.go",
		old:    `	if err := WantNone(path); err != nil { // Another`,
		new:    `	if err := WantNone(path); err != nil && mark == nil { // Another`,
		test:   "TestFileThatAppearsBeforeAnImport",
		dir:    "store",
	},
	{
		name:   "open/large-file-in-32-bits",
		breaks: "A file that a 32-bit program cannot map is refused before anything is written.",
		file:   "store/internal/boltfile/open.go",
		old:    `	if err == nil && info.Size() > mappable {`,
		new:    `	if err == nil && f.o.ReadOnly && info.Size() > mappable {`,
		test:   "TestFileThatCannotBeMapped",
	},
}
