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
}
