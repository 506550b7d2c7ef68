package main

var storeListMutants = []mutant{
	{
		name:   "store/list-forgets-the-tail",
		breaks: "A relist removes what is stored behind its last object.",
		file:   "store/replace_commit.go",
		old: `	if err := m.stageRest(ctx); err != nil {
`,
		new: `	if err := m.staging.gather(ctx); err != nil {
`,
		test: "TestListsOutOfOrder",
	},
	{
		name:   "store/list-deletes-what-an-event-brought",
		breaks: "An object that an event brought while the list was paged is not deleted at its end.",
		file:   "store/replace_warm.go",
		old: `		if e == nil || !e.event {
			gone = append(`,
		new: `		if e == nil || e.event || !e.event {
			gone = append(`,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/list-older-than-event",
		breaks: "A page that was read before an event does not undo it.",
		file:   "store/replace_warm.go",
		old: `		if p.event && !entry.NewerRV(it.rv, p.rv) {
			return // the event happened after the page was read
		}
`,
		new:  ``,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/event-older-than-list",
		breaks: "An event from before a page was read does not undo what the page says.",
		file:   "store/replace_warm.go",
		old: `	if entry.NewerRV(listed, x.rv) {
		return Result{Staged: true}, nil
	}
`,
		new: `	_ = listed
`,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/cold-page-brings-back",
		breaks: "A page that was read before a watched delete does not bring the object back.",
		file:   "store/replace_cold.go",
		old: `	if rv, gone := t.goneAt(x.key); gone && !entry.NewerRV(x.rv, rv) {
		return nil
	}
`,
		new:  ``,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/cold-page-over-newer-event",
		breaks: "In a cold start a page does not overwrite what a newer event has stored.",
		file:   "store/replace_cold.go",
		old: `	if old.found && notOlder(old.RV, x.rv) {
		return nil
	}
	if rv, gone := t.goneAt(x.key); gone && !entry.NewerRV`,
		new:  "\tif rv, gone := t.goneAt(x.key); gone && !entry.NewerRV",
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/rewrite-trusts-rv",
		breaks: "A rewriting list compares bodies.",
		file:   "store/replace_warm.go",
		old: `	if !m.r.o.Rewrite {
		return x.rv != "", nil
	}
`,
		new: `	if x.rv != "" {
		return true, nil
	}
`,
		test: "TestRewriteReportsOnlySemanticDifferences",
	},
	{
		name:   "store/list-trusts-rv-across-uids",
		breaks: "A relist tells objects of one key apart by UID.",
		file:   "store/replace_warm.go",
		old: `	if !disk.found || disk.UID != x.uid || disk.RV != x.rv {
`,
		new: `	if !disk.found || disk.RV != x.rv {
`,
		test: "TestRelistTellsObjectsApartByUID",
	},
	{
		name:   "store/list-in-parts-not-marked",
		breaks: "A crash between the transactions of a large list's end leads to another list.",
		file:   "store/replace_commit.go",
		old: `			if w.state.MustRelist == "" { // else there is a reason that says more
				w.state.MustRelist = interrupted
			}
`,
		new:  ``,
		test: "TestCommitInterrupted",
	},
	{
		name:   "store/list-end-leaves-mark",
		breaks: "The end of a list clears the reason why it was due.",
		file:   "store/replace.go",
		old: `	st.ResourceVersion, st.MustRelist = "", ""
`,
		new: `	st.ResourceVersion = ""
`,
		test: "TestIfContradicted",
	},
	{
		name:   "store/list-keeps-old-attributes",
		breaks: "The attributes under which a list was made are stored with it.",
		file:   "store/replace.go",
		old: `	st.Complete, st.Attributes = true, o.Attributes
`,
		new: `	st.Complete = true
`,
		test: "TestCollectionSurvivesReopening",
	},
	{
		name:   "store/list-survives-loss",
		breaks: "A list into a collection that a rebuild has lost something of ends with ErrReplaceLost.",
		file:   "store/replace.go",
		old: `	case r.losses != r.c.Losses():
`,
		new: `	case r.losses > r.c.Losses():
`,
		test: "TestRebuildEndsLists",
	},
	{
		name:   "store/apply-during-list",
		breaks: "While a list is taken in, other writes are refused.",
		file:   "store/apply_pending.go",
		old: `	case c.replacing != nil:
		return nil, false, ErrReplacing
`,
		new:  ``,
		test: "TestReplacementExcludesOtherWriters",
	},
	{
		name:   "store/list-staged-in-memory",
		breaks: "A relist that is too large for memory is staged in the file.",
		file:   "store/staging.go",
		old: `	if s.bytes <= s.c.limits.staging {
`,
		new: `	if s.bytes >= 0 {
`,
		test: "TestRelistLeavesMemoryAndCleansUp",
	},
	{
		name:   "store/list-puts-before-deletes",
		breaks: "The changes of a list are told deletes first.",
		file:   "store/replace.go",
		old:    "set: c.set.Load(), at: stagedDelete,",
		new:    "set: c.set.Load(), at: stagedPut,",
		test:   "TestCommitInChunks",
	},
	{
		name:   "store/list-of-unreadable-without-record",
		breaks: "An object of a list that cannot be read back at the commit is recorded as left out.",
		file:   "store/replace_commit.go",
		old: `				t.leftOut = append(t.leftOut, leftOutOf(&e.write, err))
`,
		new:  ``,
		test: "TestRelistOfAnObjectThatCanNotBeReadBack",
	},
	{
		name:   "store/list-without-rv-resumable",
		breaks: "A list that came without a resourceVersion cannot be resumed from.",
		file:   "store/replace.go",
		old: `		st.MustRelist = "the list came without a resourceVersion"
`,
		new: `		st.MustRelist = ""
`,
		test: "TestListWithoutAResourceVersion",
	},
	{
		name:   "store/list-terms-of-old-functions",
		breaks: "An index that is added while a list is taken in has the list's objects.",
		file:   "store/replace_commit.go",
		old: `	if set.generation == m.set.generation {
		return nil
	}
`,
		new: `	if set.generation >= m.set.generation {
		return nil
	}
`,
		test: "TestIndexThatIsAddedDuringAList",
	},
	{
		name:   "store/list-unencodable-without-record",
		breaks: "An object of a list that cannot be encoded is recorded as left out.",
		file:   "store/replace_warm.go",
		old: `		m.r.leaveOut(leftOutOf(it.write, it.err))
`,
		new:  ``,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/list-event-unencodable-without-record",
		breaks: "An object of an event that came while a list was paged, and cannot be encoded, is recorded as left out.",
		file:   "store/replace_warm.go",
		old: `	if unfit != nil {
		m.r.leaveOut(leftOutOf(x, unfit))
`,
		new: `	if unfit != nil {
`,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/cold-unencodable-without-record",
		breaks: "An object of a first list that cannot be encoded is recorded as left out.",
		file:   "store/replace_cold.go",
		old: `		for _, l := range part.leftOut {
			m.r.leaveOut(l)
		}
`,
		new: `		_ = part
`,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/list-loses-more-left-out",
		breaks: "A list that compares identities does not know what else was left out.",
		file:   "store/leftout.go",
		old: `	before, more := info.LeftOut, info.LeftOutMore && !rewrites
`,
		new: `	before, more := info.LeftOut, false
`,
		test: "TestLeftOutIsBounded",
	},
	{
		name:   "store/list-forgets-left-out",
		breaks: "What was left out before stays recorded if a list took it for unchanged.",
		file:   "store/leftout.go",
		old: `			} else if found && ref == l.ObjectRef {
				info.leaveOut(l)
			}
`,
		new: `			} else if found && ref == l.ObjectRef {
				continue
			}
`,
		test: "TestLeftOutBodyOfTheSameVersion",
	},
	{
		name:   "store/unheard-not-told",
		breaks: "What nobody was told of an interrupted cold start is in the changes of the next list.",
		file:   "store/replace.go",
		old: `unheard: !info.Complete && !c.reported.Load()}
`,
		new: `unheard: false}
`,
		test: "TestFeedOverAnInterruptedList",
	},
}
