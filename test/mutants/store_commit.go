package main

var storeCommitMutants = []mutant{
	{
		name:   "store/commit-newest-rv",
		breaks: "The resourceVersion in the file covers the objects of the same commit, not those that came since.",
		file:   "store/overlay_snapshot.go",
		old: `		w.state.cover(snap.info)
`,
		new: `		info := snap.info
		if now, unsaved := c.overlay.current(); unsaved {
			info.ResourceVersion = now.ResourceVersion
		}
		w.state.cover(info)
`,
		test: "TestCommitCoversItsObjectsOnly",
	},
	{
		name:   "store/commit-no-rv",
		breaks: "A commit writes the resourceVersion that covers its objects.",
		file:   "store/overlay_snapshot.go",
		old: `	st.ResourceVersion, st.LastContact, st.Newest = info.ResourceVersion, info.LastContact, info.Newest
`,
		new: `	st.LastContact, st.Newest = info.LastContact, info.Newest
`,
		test: "TestEveryTransactionLeavesAState",
	},
	{
		name:   "store/commit-rv-first",
		breaks: "Objects and the resourceVersion that covers them commit in one transaction, not the latter before.",
		file:   "store/commits.go",
		old: `	err := s.updateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
`,
		new: `	err := s.updateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
			if err := c.writeSnapshot(tx, &snapshot{tree: newOverlay().tree, info: snap.info}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.updateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
`,
		test: "TestEveryTransactionLeavesAState",
	},
	{
		name:   "store/commit-objects-first",
		breaks: "Objects and the resourceVersion that covers them commit in one transaction, not the former before.",
		file:   "store/commits.go",
		old: `	err := s.updateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
`,
		new: `	err := s.updateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
			if err := c.writeSnapshot(tx, &snapshot{tree: snap.tree, idle: true}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.updateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
`,
		test: "TestEveryTransactionLeavesAState",
	},
	{
		name:   "store/bookmark-not-stored",
		breaks: "A bookmark advances the stored resourceVersion.",
		file:   "store/overlay.go",
		old: `	o.info, o.unsaved = info, true
	o.batches++
`,
		new: `	o.info, o.unsaved = info, o.unsaved || len(last) > 0
	o.batches++
`,
		test: "TestEveryTransactionLeavesAState",
	},
	{
		name:   "store/failed-commit-forgotten",
		breaks: "What a failed commit could not write stays pending.",
		file:   "store/commits.go",
		old: `		if err != nil {
			continue
		}
		c.places.committed(snap.places)
`,
		new: `		c.places.committed(snap.places)
`,
		test: "TestFailedCommitLosesNothing",
	},
	{
		name:   "store/full-disk-is-fatal",
		breaks: "A full disk loses nothing, and the write is tried again.",
		file:   "store/file_update.go",
		old: `	if err == nil && !advanced && isNoSpace(failed.err) {
`,
		new: `	if err == nil && !advanced && isNoSpace(failed.err) && s.o.MaxSize < 0 {
`,
		test: "TestFullDisk",
	},
	{
		name:   "store/commit-forgets-later-batches",
		breaks: "Batches that came while a commit was under way are committed by the next one.",
		file:   "store/overlay.go",
		old: `	if o.batches == s.batches {
`,
		new: `	if o.batches >= s.batches {
`,
		test: "TestCommitCoversItsObjectsOnly",
	},
	{
		name:   "store/commit-half",
		breaks: "A commit writes all that was pending when it began.",
		file:   "store/overlay_snapshot.go",
		old: `	snap.tree.Ascend(func(x *write) bool {
		var old stored
`,
		new: `	written := 0
	snap.tree.Ascend(func(x *write) bool {
		if written++; written > 100 {
			return false
		}
		var old stored
`,
		test: "TestCommitIsWhole",
	},
	{
		name:   "store/last-contact-lost",
		breaks: "A batch's last contact is stored with it.",
		file:   "store/apply_writer.go",
		old: `		st.LastContact = b.LastContact
`,
		new: `		_ = b.LastContact
`,
		test: "TestApplyKeepsLastContactAndEmptyFields",
	},
	{
		name:   "store/failed-commit-not-told",
		breaks: "CommitErr tells why the last commit failed.",
		file:   "store/commits.go",
		old: `	before, k.err = k.err, err
`,
		new: `	before = k.err
`,
		test: "TestCommitIsRetried",
	},
	{
		name:   "store/commit-outcome-unknown-goes-on",
		breaks: "After a commit whose outcome is unknown nothing is written to that file.",
		file:   "store/file_update.go",
		old: `	err = fmt.Errorf("write %s: %w: %w", s.path, ErrOutcomeUnknown, failed.err)
	s.fail(h, err)
`,
		new: `	err = fmt.Errorf("write %s: %w: %w", s.path, ErrOutcomeUnknown, failed.err)
`,
		test: "TestFailedSync",
	},
	{
		name:   "store/fsync-error-as-full-disk",
		breaks: "A commit whose sync failed is of unknown outcome, even if the disk was full.",
		file:   "store/file_update.go",
		old: `	if err == nil && !advanced && isNoSpace(failed.err) {
`,
		new: `	if err == nil && (advanced || !advanced) && isNoSpace(failed.err) {
`,
		test: "TestFailedSync",
	},
	{
		name:   "store/flush-waits-for-ever",
		breaks: "Flush returns when its context ends, and the commit goes on.",
		file:   "store/commits.go",
		old: `	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", s.stillWriting(), context.Cause(ctx))
`,
		new: `	case err = <-done:
	case <-context.Background().Done():
		err = fmt.Errorf("%w: %w", s.stillWriting(), context.Cause(ctx))
`,
		test: "TestFlushEndsWithItsContext",
	},
	{
		name:   "store/flush-abandoned-is-no-error",
		breaks: "Flush that is given up returns an error that wraps ErrStillWriting.",
		file:   "store/commits.go",
		old: `		err = fmt.Errorf("%w: %w", s.stillWriting(), context.Cause(ctx))
`,
		new: `		err = nil
`,
		test: "TestFlushEndsWithItsContext",
	},
	{
		name:   "store/close-commits-nothing",
		breaks: "After Close the file has the last state.",
		file:   "store/close.go",
		old: `	if !s.hasPending() {
		return nil
	}
`,
		new: `	if s.hasPending() {
		return nil
	}
`,
		test: "TestCollectionsCommitTogether",
	},
	{
		name:   "store/collection-close-commits-nothing",
		breaks: "Whoever opens a collection after Close goes on from what was pending.",
		file:   "store/close.go",
		old: `	if _, unsaved := c.overlay.current(); !unsaved && !c.places.dirty() {
		return nil
	}
	err := c.store.Flush(context.Background())
`,
		new: `	if _, unsaved := c.overlay.current(); !unsaved && !c.places.dirty() {
		return nil
	}
	var err error
`,
		test: "TestReopenWithPending",
	},
	{
		name:   "store/commit-loses-newer",
		breaks: "What a batch writes while a commit is under way stays pending after it.",
		file:   "store/overlay.go",
		old: `		if now, ok := o.tree.Get(x); ok && now == x {
`,
		new: `		if now, ok := o.tree.Get(x); ok && now.key == x.key {
`,
		test: "TestUpdatesDuringACommit",
	},
}
