package main

var storeListMutants = []mutant{
	{
		name:   "store/list-forgets-the-tail",
		breaks: "A relist removes stored objects behind its last key.",
		file:   "store/internal/engine/replace_end.go",
		dir:    "store",
		old: `		if err := r.rest(ctx); err != nil {
			return entry.Result{}, err
		}
`,
		new:  ``,
		test: "TestListsOutOfOrder",
	},
	{
		name:   "store/list-deletes-what-an-event-brought",
		breaks: "An object added by an event during a paginated list is not deleted at its end.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "store",
		old: `		if _, known := r.events[key]; !known && items[key] == nil {
`,
		new: `		if items[key] == nil {
`,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/list-older-than-event",
		breaks: "A page that was read before an event does not undo it.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `	if e, ok := r.events[it.Key]; ok && !entry.NewerRV(it.RV, e.rv) {
		it.skip = true // The event is newer than the page.
		return nil
	}
`,
		new:  ``,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/event-older-than-list",
		breaks: "An event older than a page does not undo the page.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "store",
		old: `	if entry.NewerRV(listed, it.RV) {
		it.skip = true
		return nil
	}
`,
		new: `	_ = listed
`,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/list-trusts-rv-across-uids",
		breaks: "A relist tells objects of one key apart by UID.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `	uid, rv := now.Version()
	return uid == x.UID && rv == x.RV
`,
		new: `	_, rv := now.Version()
	return rv == x.RV
`,
		test: "TestRelistDistinguishesObjectsByUID",
	},
	{
		name:   "store/list-in-parts-not-marked",
		breaks: "A crash between the transactions of a large list's end leads to another list.",
		file:   "store/internal/engine/replace_end.go",
		dir:    "store",
		old: `	if info.MustRelist == "" || info.MustRelist == entry.MustRelistOpaque || !r.o.Rewrite {
`,
		new: `	if false {
`,
		test: "TestCommitInterrupted",
	},
	{
		name:   "store/opaque-list-in-parts-not-marked",
		breaks: "A mixture of two lists is marked where resourceVersions cannot be compared.",
		file:   "store/internal/engine/replace_end.go",
		dir:    "store",
		old:    ` || info.MustRelist == entry.MustRelistOpaque || !r.o.Rewrite {`,
		new:    ` || info.MustRelist != entry.MustRelistOpaque && !r.o.Rewrite {`,
		test:   "TestOpaqueListInterrupted",
	},
	{
		name:   "store/list-end-leaves-mark",
		breaks: "The end of a list clears the reason why it was due.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `	st.ResourceVersion, st.MustRelist = "", ""
`,
		new: `	st.ResourceVersion = ""
`,
		test: "TestIfContradicted",
	},
	{
		name:   "store/list-keeps-old-attributes",
		breaks: "The attributes under which a list was made are stored with it.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `	st.Complete, st.Attributes = true, o.Attributes
`,
		new: `	st.Complete = true
`,
		test: "TestCollectionSurvivesReopening",
	},
	{
		name:   "store/apply-during-list",
		breaks: "While a list is taken in, other writes are refused.",
		file:   "store/internal/engine/apply.go",
		dir:    "store",
		old: `	if c.replacing != nil {
		return nil, ErrReplacing
	}
`,
		new:  ``,
		test: "TestReplacementExcludesOtherWriters",
	},
	{
		name:   "store/keys-change-one-by-one",
		breaks: "Reads by key see a batch whole, in a collection in memory too: they wait while several keys change.",
		file:   "store/internal/engine/resident_table.go",
		old: `	for _, x := range last {
		if x.Del {
`,
		new: `	for _, x := range last {
		t.mu.Unlock()
		t.mu.Lock()
		if x.Del {
`,
		test: "TestTableReaders",
	},
	{
		name:   "store/list-held-without-bound",
		breaks: "A relist that is too large for memory is shown before it has ended.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "store",
		old: `	if r.showing || r.bytes <= r.c.Limits.Held {
`,
		new: `	if r.showing || r.bytes >= 0 {
`,
		test: "TestLargeRelist",
	},
	{
		name:   "store/list-puts-before-deletes",
		breaks: "The changes of a list are delivered with deletes first.",
		file:   "store/internal/engine/replace_end.go",
		dir:    "store",
		old: `	for ; n < len(r.end.deletes) && size <= r.c.Limits.Step; n++ {
		size += r.deletes[r.end.deletes[n]]
	}
	deletes = r.end.deletes[:n]
	for n = 0; len(deletes) == len(r.end.deletes) && n`,
		new: `	for ; len(r.end.puts) == 0 && n < len(r.end.deletes) && size <= r.c.Limits.Step; n++ {
		size += r.deletes[r.end.deletes[n]]
	}
	deletes = r.end.deletes[:n]
	for n = 0; n`,
		test: "TestCommitInChunks",
	},
	{
		name:   "store/list-of-unreadable-without-record",
		breaks: "An object of a list that cannot be read back at the commit is recorded as left out.",
		file:   "store/internal/engine/replace_end.go",
		dir:    "store",
		old: `				r.leaveOut(leftOutOf(x, err))
				skipped`,
		new:  `				skipped`,
		test: "TestRelistOfAnUnreadableObject",
	},
	{
		name:   "store/list-without-rv-resumable",
		breaks: "A list that came without a resourceVersion cannot be resumed from.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `		st.MustRelist = "the list came without a resourceVersion"
`,
		new: `		st.MustRelist = ""
`,
		test: "TestListWithoutAResourceVersion",
	},
	{
		name:   "store/list-terms-of-old-functions",
		breaks: "An index that is added while a list is taken in has the list's objects.",
		file:   "store/internal/engine/replace_end.go",
		dir:    "store",
		old:    `	if x.Obj = obj; err == nil && p.generation != set.Generation() {`,
		new:    `	if x.Obj = obj; err == nil && p.generation > set.Generation() {`,
		test:   "TestIndexThatIsAddedDuringAList",
	},
	{
		name:   "store/list-unencodable-without-record",
		breaks: "An object of a list that cannot be encoded is recorded as left out.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "store",
		old: `		r.leaveOut(leftOutOf(it.Write, it.err))
		if reportable(it.err) {
			skipped`,
		new: `		if reportable(it.err) {
			skipped`,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/list-event-unencodable-without-record",
		breaks: "An object of an event that came while a list was paged, and cannot be encoded, is recorded as left out.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "store",
		old: `			r.leaveOut(leftOutOf(x, it.err))
			res := `,
		new:  `			res := `,
		test: "TestLeftOutIsInTheFile",
	},
	{
		name:   "store/list-loses-more-left-out",
		breaks: "A list by identities does not reset the mark of further left-out objects.",
		file:   "store/internal/engine/leftout.go",
		dir:    "store",
		old: `	before, more := info.LeftOut, info.LeftOutMore && !rewrites
`,
		new: `	before, more := info.LeftOut, false
`,
		test: "TestLeftOutIsBounded",
	},
	{
		name:   "store/list-forgets-left-out",
		breaks: "A left-out object stays recorded if a list finds it unchanged.",
		file:   "store/internal/engine/leftout.go",
		dir:    "store",
		old: `			} else if found && ref == l.ObjectRef {
				leaveOut(info, l)
			}
`,
		new: `			} else if found && ref == l.ObjectRef {
				continue
			}
`,
		test: "TestLeftOutBodyOfTheSameVersion",
	},
	{
		name:   "store/unreported-left-out-of-changes",
		breaks: "Undelivered objects of an interrupted cold start are in the changes of the next list.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `		c.unreported[key] = struct{}{}
`,
		new: `		_ = key
`,
		test: "TestChangelogOverAnInterruptedList",
	},
	{
		name:   "store/list-brings-back-what-an-event-deleted",
		breaks: "An object deleted by an event does not appear as an object in the list's changes.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "store",
		old: `	r.events[x.Key] = watched{rv: x.RV, gone: x.Del}
`,
		new:  ``,
		test: "TestEventsDuringARelist",
	},
	{
		name:   "store/seqs-in-key-order",
		breaks: "Seqs are given in the order of the stream.",
		file:   "store/internal/engine/memtable.go",
		old: `	slices.SortFunc(all, func(a, b *Write) int { return cmp.Compare(a.Order, b.Order) })
`,
		new: `	slices.SortFunc(all, func(a, b *Write) int { return cmp.Compare(a.Key, b.Key) })
`,
		test: "TestApplyWritesEachKeyOncePerBatch",
		dir:  "store",
	},
	{
		name:   "store/rewrite-tells-of-equal-bodies",
		breaks: "A rewritten but unchanged object is not delivered.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `	case !x.SameObject:
		change =`,
		new: `	default:
		change =`,
		test: "TestRewriteChangesCompression",
	},
	{
		name:   "store/list-skips-a-key-between-pages",
		breaks: "A relist removes every object behind its last key, also where one page of missing keys follows another.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "store",
		old: `		if key > end || len(missing) == limit {
			return false
		}
		last = key
`,
		new: `		last = key
		if key > end || len(missing) == limit {
			return false
		}
`,
		test: "TestListThatLacksManyKeys",
	},
	{
		name:   "store/list-removes-one-page",
		breaks: "A relist removes all objects behind its last key, not only the first page of them.",
		file:   "store/internal/engine/replace_end.go",
		dir:    "store",
		old: `		if r.last = max(r.last, last); len(missing) < tailPage {
			return nil
		}
`,
		new: `		if r.last = max(r.last, last); len(missing) <= tailPage {
			return nil
		}
`,
		test: "TestListThatLacksManyKeys",
	},
	{
		name:   "store/rewrite-hides-an-uncommitted-update",
		breaks: "A durable handler receives an uncommitted update that a rewriting list finds again.",
		file:   "store/internal/engine/memtable.go",
		dir:    "store",
		old: `			x.SameObject = x.SameObject && old.SameObject
`,
		new:  ``,
		test: "TestRewriteOfAnUncommittedUpdate",
	},
	{
		name:   "store/known-by-key",
		breaks: "A list by metadata fetches an object whose record has another resourceVersion.",
		file:   "store/internal/engine/replace_page.go",
		dir:    "informer",
		old:    ` || x.RV == "" || !sameVersion(x, now) {`,
		new:    ` || x.RV == "" {`,
		test:   "TestListByMetadataReadsRecords",
	},
	{
		name:   "store/identity-of-the-shared-object",
		breaks: "The UID of a stored object comes from its record, not from the object that handlers share.",
		file:   "store/internal/engine/storage.go",
		dir:    "informer",
		old: `			p.Found, p.UID, p.RV, p.Obj = true, s.UID, s.RV, s.Obj
`,
		new: `			p.Found, p.RV, p.Obj = true, s.RV, s.Obj
			p.UID, _ = IdentityOf(s.Obj)
`,
		test: "TestUpdateOfAMutatedObject",
	},
	{
		name:   "store/list-trusts-versions",
		breaks: "A list compares bodies under an equal UID and resourceVersion.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old: `	if same, err := now.SameBody(x); err != nil || !same {
		return false, err
	}
`,
		new:  ``,
		test: "TestListComparesBodiesAndTerms",
	},
	{
		name:   "store/list-trusts-terms",
		breaks: "A list compares index terms under an equal body.",
		file:   "store/internal/engine/replace.go",
		dir:    "store",
		old:    `	if termed {`,
		new:    `	if false && termed {`,
		test:   "TestListComparesBodiesAndTerms",
	},
	{
		name:   "store/index-version-without-types",
		breaks: "An index is rebuilt for other Go types.",
		file:   "store/internal/engine/indexes.go",
		dir:    "informer",
		old:    `version + " of " + c.Fingerprint()`,
		new:    `version`,
		test:   "TestIndexOverAnUpgradeOfTheTypes",
	},
}
