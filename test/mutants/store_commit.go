package main

var storeCommitMutants = []mutant{
	{
		name:   "store/commit-newest-rv",
		breaks: "The resourceVersion in the file covers the objects of the same commit, not those that came since.",
		file:   "store/internal/engine/writer.go",
		old: `		w.State.Follow(snap.Info.Info)
`,
		new: `		at := snap.Info
		if now, dirty := w.Read.Memtable.Current(); dirty {
			at.ResourceVersion = now.ResourceVersion
		}
		w.State.Follow(at.Info)
`,
		test: "TestCommitCoversItsObjectsOnly",
		dir:  "store",
	},
	{
		name:   "store/commit-no-rv",
		breaks: "A commit writes the resourceVersion that covers its objects.",
		file:   "store/internal/engine/state.go",
		dir:    "store",
		old: `	st.ResourceVersion, st.LastContact, st.Newest = info.ResourceVersion, info.LastContact, info.Newest
`,
		new: `	st.LastContact, st.Newest = info.LastContact, info.Newest
`,
		test: "TestEveryTransactionLeavesAState",
	},
	{
		name:   "store/commit-rv-first",
		breaks: "Objects and the resourceVersion that covers them commit in one transaction, not the latter before.",
		file:   "store/internal/engine/commit_loop.go",
		dir:    "store",
		old: `		snap.prepare()
`,
		new: `		snap.prepare()
		_ = l.File.Update(context.Background(), trimming, func(tx *bolt.Tx) error {
			return UpdateState(tx, snap.c.Read.Name, func(_ *bolt.Bucket, st *CollectionState) error {
				st.Follow(snap.Info.Info)
				return nil
			})
		})
`,
		test: "TestEveryTransactionLeavesAState",
	},
	{
		name:   "store/commit-objects-first",
		breaks: "Objects and the resourceVersion that covers them commit in one transaction, not the former before.",
		file:   "store/internal/engine/commit_loop.go",
		dir:    "store",
		old: `		snap.prepare()
`,
		new: `		snap.prepare()
		only := *snap.MemtableSnapshot
		only.Idle = true
		_ = l.File.Update(context.Background(), trimming, func(tx *bolt.Tx) error {
			w, err := BeginWriter(tx, snap.c.target())
			if err == nil {
				_, err = w.Commit(&only)
			}
			return err
		})
`,
		test: "TestEveryTransactionLeavesAState",
	},
	{
		name:   "store/bookmark-not-stored",
		breaks: "A bookmark advances the stored resourceVersion.",
		file:   "store/internal/engine/memtable.go",
		old: `	o.info, o.dirty = update(o.info, o.dirty), true
`,
		new: `	if now := update(o.info, o.dirty); len(last) > 0 {
			o.info, o.dirty = now, true
		}
`,
		test: "TestApplyKeepsLastContactAndEmptyFields",
		dir:  "store",
	},
	{
		name:   "store/failed-commit-forgotten",
		breaks: "Changes that a failed commit could not write stay uncommitted.",
		file:   "store/internal/engine/commit.go",
		dir:    "store",
		old: `		s.cursors = nil // A later done, when the outcome is known, must not reset handlers again.
		return 0, false
`,
		new: `		s.cursors = nil
`,
		test: "TestFailedCommitLosesNothing",
	},
	{
		name:   "store/full-disk-is-fatal",
		breaks: "A full disk loses nothing, and the write is tried again.",
		file:   "store/internal/boltfile/failure.go",
		old: `	if err == nil && !advanced && isNoSpace(failed.Err) {
`,
		new: `	if err == nil && !advanced && isNoSpace(failed.Err) && f.MaxSize < 0 {
`,
		test: "TestFullDisk",
		dir:  "store",
	},
	{
		name:   "store/commit-forgets-later-batches",
		breaks: "Batches that arrive during a commit are committed by the next one.",
		file:   "store/internal/engine/memtable.go",
		old: `	if o.batches == s.batches {
`,
		new: `	if o.batches >= s.batches {
`,
		test: "TestCommitCoversItsObjectsOnly",
		dir:  "store",
	},
	{
		name:   "store/commit-half",
		breaks: "A commit writes all that was pending when it began.",
		file:   "store/internal/engine/writer.go",
		old: `	for _, x := range snap.Writes(w.Log.Kept()) { // Writes are in the order of their sequence numbers.
`,
		new: `	for n, x := range snap.Writes(w.Log.Kept()) { // Writes are in the order of their sequence numbers.
		if n >= 100 {
			break
		}
`,
		test: "TestCommitWritesAllBatches",
		dir:  "store",
	},
	{
		name:   "store/last-contact-lost",
		breaks: "A batch's last contact is stored with it.",
		file:   "store/internal/engine/apply.go",
		dir:    "store",
		old: `		i.LastContact = b.LastContact
`,
		new: `		_ = b.LastContact
`,
		test: "TestApplyKeepsLastContactAndEmptyFields",
	},
	{
		name:   "store/failed-commit-not-reported",
		breaks: "CommitErr returns the error of the last commit.",
		file:   "store/internal/engine/commit_loop.go",
		old: `	before, l.err = l.err, err
`,
		new: `	before = l.err
`,
		test: "TestCommitIsRetried",
		dir:  "store",
	},
	{
		name:   "store/commit-outcome-unknown-goes-on",
		breaks: "After a commit whose outcome is unknown nothing is written to that file.",
		file:   "store/internal/boltfile/failure.go",
		old: `	f.unknown = err
`,
		new:  ``,
		test: "TestFailedSync",
		dir:  "store",
	},
	{
		name:   "store/fsync-error-as-full-disk",
		breaks: "A commit whose sync failed is of unknown outcome, even if the disk was full.",
		file:   "store/internal/boltfile/failure.go",
		old: `	if err == nil && !advanced && isNoSpace(failed.Err) {
`,
		new: `	if err == nil && (advanced || !advanced) && isNoSpace(failed.Err) {
`,
		test: "TestFailedSync",
		dir:  "store",
	},
	{
		name:   "store/flush-waits-for-ever",
		breaks: "Flush returns when its context ends, and the commit continues.",
		file:   "store/internal/engine/commit_loop.go",
		old: `	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", l.File.StillWriting(), context.Cause(ctx))
`,
		new: `	case err = <-done:
	case <-context.Background().Done():
		err = fmt.Errorf("%w: %w", l.File.StillWriting(), context.Cause(ctx))
`,
		test: "TestFlushEndsWithItsContext",
		dir:  "store",
	},
	{
		name:   "store/flush-abandoned-is-no-error",
		breaks: "Flush that is given up returns an error that wraps ErrStillWriting.",
		file:   "store/internal/engine/commit_loop.go",
		old: `		err = fmt.Errorf("%w: %w", l.File.StillWriting(), context.Cause(ctx))
`,
		new: `		err = nil
`,
		test: "TestFlushEndsWithItsContext",
		dir:  "store",
	},
	{
		name:   "store/close-commits-nothing",
		breaks: "After Close the file has the last state.",
		file:   "store/open.go",
		old: `	if !s.commits.Dirty() {
		return nil
	}
`,
		new: `	if s.commits.Dirty() {
		return nil
	}
`,
		test: "TestCollectionsCommitTogether",
	},
	{
		name:   "store/collection-close-commits-nothing",
		breaks: "A collection opened after Close continues from its uncommitted changes.",
		file:   "store/internal/engine/collection.go",
		dir:    "store",
		old: `	if _, dirty := c.Read.Memtable.Current(); !dirty && !c.cursors.Dirty() {
		return nil
	}
	err := c.Commits.Flush(context.Background())
`,
		new: `	if _, dirty := c.Read.Memtable.Current(); !dirty && !c.cursors.Dirty() {
		return nil
	}
	var err error
`,
		test: "TestReopenWithUncommittedChanges",
	},
	{
		name:   "store/commit-loses-newer",
		breaks: "Writes of a batch during a commit stay uncommitted after it.",
		file:   "store/internal/engine/memtable.go",
		old: `		if now, ok := o.tree.Get(x); ok && now == x {
`,
		new: `		if now, ok := o.tree.Get(x); ok && now.Key == x.Key {
`,
		test: "TestUpdatesDuringACommit",
		dir:  "store",
	},
	{
		name:   "store/left-out-not-committed",
		breaks: "A left-out object is recorded in the same commit as the resourceVersion that covers it.",
		file:   "store/internal/engine/state.go",
		dir:    "store",
		old: `	st.LeftOut, st.LeftOutMore = info.LeftOut, info.LeftOutMore
`,
		new:  ``,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/rv-of-unencodable-without-record",
		breaks: "An object that cannot be encoded is recorded as left out with the resourceVersion that passes it.",
		file:   "store/internal/engine/encode.go",
		dir:    "store",
		old: `			b.leftOut[l.Key] = l
			continue
`,
		new: `			_ = l
			continue
`,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/left-out-for-ever",
		breaks: "An object that was stored or deleted is not left out any more.",
		file:   "store/internal/engine/leftout.go",
		dir:    "store",
		old: `	for _, x := range last {
		removeLeftOut(i, x.Key)
	}
`,
		new: `	_ = last
`,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/left-out-overflow-unknown",
		breaks: "That more objects were left out than are named is recorded.",
		file:   "store/internal/engine/leftout.go",
		dir:    "store",
		old: `		i.LeftOutMore = true
	case found:
`,
		new: `	case found:
`,
		test: "TestLeftOutIsBounded",
	},
	{
		name:   "store/left-out-deletes",
		breaks: "The stored state of a refused object stays.",
		file:   "store/internal/engine/encode.go",
		dir:    "store",
		old: `			b.leftOut[l.Key] = l
			continue
`,
		new: `			b.leftOut[l.Key] = l
			if l.Key != "" {
				b.writes = append(b.writes, &Write{Key: l.Key, Del: true})
			}
			continue
`,
		test: "TestApplySkipsInvalidObjects",
	},
	{
		name:   "store/left-out-looks-rewound",
		breaks: "The newest objects do not include an object whose newer state was refused.",
		file:   "store/internal/engine/leftout.go",
		dir:    "store",
		old:    "slices.DeleteFunc(slices.Clone(i.Newest), func(r entry.ObjectRef) bool { return r.Key == l.Key })",
		new:    "slices.Clone(i.Newest)",
		test:   "TestLeftOutIsNotAmongTheNewest",
	},
	{
		name:   "store/encoded-late",
		breaks: "A handler's modification of its object does not reach the file.",
		file:   "store/internal/engine/writer.go",
		old: `		old, err := w.old(x.Key)
`,
		new: `		if x.Obj != nil && x.Payload != nil {
			if late, err := w.Read.Codec.Append(nil, x.Obj); err == nil {
				x.Payload = late
			}
		}
		old, err := w.old(x.Key)
`,
		test: "TestFileIgnoresModifiedObjects",
		dir:  "store",
	},
	{
		name:   "store/quiet-not-bounded",
		breaks: "At twice the bound all collections wait.",
		file:   "store/internal/engine/commit_loop.go",
		old:    `	return l.bytes >= 2*bound || l.bytes >= bound`,
		new:    `	return l.bytes >= bound`,
		test:   "TestUncommittedBytesAreBounded",
		dir:    "store",
	},
	{
		name:   "store/contradiction-not-stored",
		breaks: "An event that contradicts the held state marks the collection for a list in the same commit.",
		file:   "store/internal/engine/apply.go",
		dir:    "store",
		old: `			due = b.IfContradicted
`,
		new: `			_ = b.IfContradicted
`,
		test: "TestIfContradictedIsStored",
	},
	{
		name:   "store/newest-names-deleted",
		breaks: "Info.Newest names no object that was deleted.",
		file:   "store/internal/engine/apply.go",
		dir:    "store",
		old: `		i.Newest = DropRef(i.Newest, x.Key)
		if found {
`,
		new: `		if found {
`,
		test: "TestNewestHasTheHighestResourceVersions",
	},
	{
		name:   "store/no-retry",
		breaks: "A commit that failed is tried again.",
		file:   "store/internal/engine/commit_loop.go",
		old: `		if err := l.Flush(ctx); err == nil {
			retry = commitRetry
		} else {
			retry = min(2*retry, commitRetryMax)
		}
`,
		new: `		if err := l.Flush(ctx); err != nil {
			l.mu.Lock()
			l.running = false
			l.mu.Unlock()
			return
		}
`,
		test: "TestCommitIsRetried",
		dir:  "store",
	},
	{
		name:   "store/must-relist-not-committed",
		breaks: "Why a list is due is stored with the batch that says so.",
		file:   "store/internal/engine/state.go",
		dir:    "store",
		old: `	st.Complete, st.Attributes, st.MustRelist = info.Complete, info.Attributes, info.MustRelist
`,
		new: `	st.Complete, st.Attributes = info.Complete, info.Attributes
`,
		test: "TestApplyKeepsOnlyComparableResourceVersions",
	},
	{
		name:   "store/info-torn",
		breaks: "Info is never ahead of the state that other methods read, and never goes back.",
		file:   "store/internal/engine/memtable.go",
		old: `	return &MemtableView[I]{Epoch: o.epoch, Info: o.info, Dirty: o.dirty}
`,
		new: `	return &MemtableView[I]{Epoch: o.epoch}
`,
		test: "TestReadsWhileACommitHangs",
		dir:  "store",
	},
	{
		name:   "store/torn-read",
		breaks: "A read returns one state: it detects a commit between its reads of memory and file.",
		file:   "store/internal/engine/reader.go",
		dir:    "store",
		old: `				again = true
				return nil
`,
		new: `				again = false
`,
		test: "TestReadAcrossACommitAndAList",
	},
	{
		name:   "store/clock-of-the-last-open",
		breaks: "Days on which a program ran that was killed count for deletes that are kept.",
		file:   "store/internal/engine/commit_loop.go",
		old:    "	return l.File.PutTimes(tx)\n",
		new:    "	return nil\n",
		dir:    "store",
		test:   "TestClockAfterAKill",
	},
	{
		name:   "store/prune-takes-what-was-open",
		breaks: "Prune keeps collections that this program has opened, also if they are closed again.",
		file:   "store/collections.go",
		old:    "if _, opened := s.opened.Load(name); opened {",
		new:    "if s.opened.Load(name); false {",
		dir:    "store",
		test:   "TestPrune",
	},
}
