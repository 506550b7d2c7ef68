package main

var informerMutants = []mutant{
	{
		name:   "informer/live-is-old",
		breaks: "A source that is live has no note of the age.",
		file:   "informer/status.go",
		dir:    "metrics",
		old: `	if s.Source == Live {
		info.LastContact = time.Time{}
	}
`,
		new:  ``,
		test: "TestKnownDefects",
	},
	{
		name:   "informer/age-of-the-file",
		breaks: "The note of the age is of the last contact in this run.",
		file:   "informer/status.go",
		dir:    "metrics",
		old: `	info.LastContact = s.LastContact
`,
		new: `	info.LastContact = time.Time{}
`,
		test: "TestKnownDefects",
	},
	{
		name:   "informer/unwatched-not-noted",
		breaks: "A resource that the server refuses to watch has a note.",
		file:   "informer/status.go",
		dir:    "metrics",
		old:    "s.Notes = info.Notes(i.clock.Now(), s.Reflector.ListOnly)",
		new:    "s.Notes = info.Notes(i.clock.Now(), false)",
		test:   "TestKnownDefects",
	},
	{
		name:   "entry/opaque-is-a-defect",
		breaks: "That resourceVersions cannot be compared is no defect of the contents.",
		file:   "entry/info.go",
		old:    ` && why != MustRelistOpaque {`,
		new:    ` {`,
		test:   "TestNotes",
	},
	{
		name:   "informer/transform-without-version",
		breaks: "A transform of stored objects needs a version.",
		file:   "informer/informer.go",
		old:    `i.shared.memoryOnly == "" && i.o.TransformVersion == ""`,
		new:    `i.shared.memoryOnly != "" && i.o.TransformVersion == ""`,
		test:   "TestTransformNeedsVersion",
	},
	{
		name:   "store/closed-store-is-read",
		breaks: "GetByKey of a store that was closed first fails.",
		file:   "store/internal/engine/reads.go",
		old:    `a.IsOpen() && !c.Commits.Ended()`,
		new:    `a.IsOpen()`,
		test:   "TestReadsOfAClosedStore",
		dir:    "informer",
	},
	{
		name:   "index/failure-unseen",
		breaks: "Status.Err says so if an index lacks an object because its function fails.",
		file:   "store/internal/engine/index_set.go",
		old:    `f.of[key] = map[string]error{name: err}`,
		new:    `_ = name`,
		test:   "TestFailingIndexFunction",
		dir:    "informer",
	},
	{
		name:   "index/failure-stays",
		breaks: "That error goes once the object has changed or is deleted.",
		file:   "store/internal/engine/index_set.go",
		old: `	delete(f.of, key)
	f.some.Store(`,
		new: `	_ = key
	f.some.Store(`,
		test: "TestFailingIndexFunction",
		dir:  "informer",
	},
	{
		name:   "informer/rewritten-body-not-delivered",
		breaks: "A body changed by a rewriting list is delivered, although its resourceVersion is the same.",
		file:   "informer/list.go",
		old:    `{ p.distribute(changes, true) }`,
		new:    `{ p.distribute(changes, false) }`,
		test:   "TestAnotherBodyOfTheSameVersion",
	},
	{
		name:   "informer/synced-while-missing",
		breaks: "The informer has not synced while objects that the server has may be missing.",
		file:   "informer/loop.go",
		old: `	case s.missing.Load():
		s.markDeferred = s.markDeferred || mark
`,
		new:  ``,
		test: "TestSyncing",
	},
	{
		name:   "informer/first-list-not-waited-for",
		breaks: "HasSynced waits for the commit of a first list.",
		file:   "informer/list.go",
		old: `		p.sync.saving++
`,
		new:  ``,
		test: "TestFullDiskAfterTheFirstList",
		dir:  "informer",
	},
	{
		name:   "informer/relist-waits-for-its-commit",
		breaks: "HasSynced after a relist does not wait for the disk.",
		file:   "informer/list.go",
		old: `	if p.cold && p.file != nil {
`,
		new: `	if p.file != nil {
`,
		test: "TestFullDiskAfterARelist",
		dir:  "informer",
	},
	{
		name:   "informer/mark-waits-for-a-full-disk",
		breaks: "A list that is due for good is made although the disk cannot store why.",
		file:   "informer/commit.go",
		old: `infoErr == nil && info.MustRelist == string(reason) {
				err = nil
			}
`,
		new: `infoErr == nil && info.MustRelist == string(reason) {
				_ = info
			}
`,
		test: "TestFullDiskAndARewind",
		dir:  "informer",
	},
	{
		name:   "informer/encoding-decided-once",
		breaks: "The encoding is decided at every connect.",
		file:   "informer/internal/attributes/attributes.go",
		old: `	if a.o.Encoding != nil {
		stored`,
		new: `	if a.o.Encoding != nil && a.want.Wire == "" {
		stored`,
		test: "TestServerUpgradedDuringARun",
		dir:  "informer",
	},
	{
		name:   "informer/newer-server-forgotten",
		breaks: "JSON that was chosen for a newer server stays while another server answers.",
		file:   "informer/internal/attributes/encoding.go",
		old:    `newer(before) && !laterThan(wire, v)`,
		new:    `newer(before) && laterThan(wire, v)`,
		test:   "TestEncoding",
	},
	{
		name:   "informer/overwritten-goes-on",
		breaks: "A run ends once another file was copied over the store's.",
		file:   "informer/loop.go",
		old:    `return errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrOverwritten)`,
		new:    `return errors.Is(err, store.ErrClosed)`,
		test:   "TestOverwrittenFile",
	},
	{
		name:   "informer/loop-waits-for-the-first-list",
		breaks: "Events after a first list are applied while its commit does not return.",
		file:   "informer/list.go",
		old:    `p.savers.Go(func() { p.saveFirstList(ctx) })`,
		new:    `p.saveFirstList(ctx)`,
		test:   "TestHungDiskAfterTheFirstList",
	},
	{
		name:   "informer/first-list-tried-once",
		breaks: "The commit of a first list is tried again.",
		file:   "informer/list.go",
		old: `delay.Step()) != nil:
			return
		}
	}
}

// endList`,
		new: `delay.Step()) == nil:
			return
		}
	}
}

// endList`,
		test: "TestFullDiskAfterTheFirstList",
	},
	{
		name:   "factory/unstarted-unsaid",
		breaks: "A line of the log names the types of a factory that were not started.",
		file:   "informer/factory/typed.go",
		old:    `	if len(types) == 0 {`,
		new:    `	if len(types) >= 0 {`,
		test:   "TestUnstarted",
	},
}
