package main

// storeIndexMutants are deliberate faults in the building and reading of a store file's indexes.
var storeIndexMutants = []mutant{
	{
		name:   "store/index-trusted-without-version",
		breaks: "The next process trusts a stored index only if its function has the same version.",
		file:   "store/internal/engine/index_set.go",
		old: `		same := known && have.Version == want.Version && (want.Version != "" || s.ready[name])
`,
		new: `		same := known
`,
		test: "TestIndexIsTrustedByVersion",
		dir:  "store",
	},
	{
		name:   "store/look-up-before-the-build",
		breaks: "A look-up waits until the index has been built: before that the answer would be short.",
		file:   "store/internal/engine/indexes.go",
		dir:    "store",
		old: `		if set.Ready(name) {
`,
		new: `		if set != nil {
`,
		test: "TestLookUpWaitsForTheBuild",
	},
	{
		name:   "store/look-up-waits-for-a-failed-build",
		breaks: "A look-up says why an index is not built, and does not wait for the next attempt.",
		file:   "store/internal/engine/index_builder.go",
		old: `	b.mu.Unlock()
	b.wake()
}
`,
		new: `	b.failure = nil
	b.mu.Unlock()
	b.wake()
}
`,
		test: "TestLookUpWhileTheBuildFails",
		dir:  "store",
	},
	{
		name:   "store/writers-beside-an-added-index",
		breaks: "Writers wait while an index is added: objects that are written beside would be missing in it.",
		file:   "store/internal/engine/apply.go",
		old:    `for c.front.Lock(); c.paused != nil; c.front.Lock() {`,
		new:    `for c.front.Lock(); false; c.front.Lock() {`,
		test:   "TestWritersWaitForAnAddedIndex",
		dir:    "store",
	},
	{
		name:   "store/half-built-index-added",
		breaks: "An index that could not be built to its end is not added.",
		file:   "store/internal/engine/indexes.go",
		dir:    "store",
		old: `			defer c.mu.Unlock()
			c.dropIndexesLocked(added.Names())
`,
		new: `			defer c.mu.Unlock()
`,
		test: "TestAddIndexersThatFailsInTheMiddle",
	},
	{
		name:   "store/add-indexers-outlives-close",
		breaks: "AddIndexers ends with its collection, and makes no index ready after that.",
		file:   "store/internal/boltfile/file.go",
		old: `	defer w.running.Done()
	ctx, cancel := context.WithCancel(ctx)
`,
		new: `	w.running.Done()
	ctx, cancel := context.WithCancel(ctx)
`,
		dir:  "store",
		test: "TestAddIndexersEndsWithItsCollection",
	},
	{
		name:   "store/index-scan-not-verified",
		breaks: "A scan looks one key past its range, so that an entry moved by damage is noticed.",
		file:   "store/internal/engine/index_reader.go",
		old: `		s.Next()
	}
	return s.Err
}

// values calls`,
		new: `		_ = k
	}
	return s.Err
}

// values calls`,
		test: "TestLookUpOfAnEntryThatMoved",
		dir:  "store",
	},
	{
		name:   "store/view-index-not-ready",
		breaks: "A View refuses an index that is not built.",
		file:   "store/read.go",
		old: `		if !st.Indexes[want.Index].Ready {
`,
		new: `		if _, known := st.Indexes[want.Index]; !known {
`,
		test: "TestViewOfAnUnbuiltIndex",
	},
	{
		name:   "store/index-idle-stays-ready",
		breaks: "An index that a process did not update is rebuilt by the next one.",
		file:   "store/internal/engine/index_entries.go",
		old: `			st.Idle, st.Ready = true, false
`,
		new: `			st.Idle = true
`,
		test: "TestIndexAfterWritesWithoutIt",
		dir:  "store",
	},
	{
		name:   "store/index-prefix-of-another-value",
		breaks: "A look-up by value finds exactly that value, and not values with that prefix.",
		file:   "store/internal/format/tuple.go",
		old: `	return append(p, escape, terminator)
`,
		new: `	return append(p, escape)
`,
		test: "TestIndexValuesOfAnyBytes",
		dir:  "store",
	},
}
