package main

var serveMutants = []mutant{
	{
		name:   "serve/upgrade-by-http2",
		breaks: "A request that upgrades its connection is forwarded by HTTP/1.1.",
		file:   "serve/forward.go",
		old:    "return t.upgrades.RoundTrip(r)",
		new:    "return t.others.RoundTrip(r)",
		test:   "TestForwardUpgrades",
	},
	{
		name:   "serve/late-is-an-outage",
		breaks: "A forwarded request that takes too long is answered as one, and not as an outage of the API server.",
		file:   "serve/forward.go",
		old:    "errors.As(cause, &known)",
		new:    "false && errors.As(cause, &known)",
		test:   "TestForwardSaysWhy",
	},
	{
		name:   "serve/leftovers",
		breaks: "What an earlier process has mirrored, and this one does not, is absent.",
		file:   "serve/source.go",
		old:    "s.mirrored != nil && !s.mirrored[info.Identity]",
		new:    "s.mirrored == nil && !s.mirrored[info.Identity]",
		test:   "TestMirrorIsLive",
	},
	{
		name:   "serve/not-open-is-still",
		breaks: "What is mirrored and not open yet is not answered as it is stored.",
		file:   "serve/source.go",
		old: `	if s.mirrored != nil {
		return nil, errNotListed(id)
	}
`,
		new:  ``,
		test: "TestMirrorIsLive",
	},
	{
		name:   "serve/mixture",
		breaks: "While a list is put into the store page by page, no list is answered.",
		file:   "serve/listing.go",
		old:    "h != nil && !h.Settled()",
		new:    "false && !h.Settled()",
		test:   "TestNoMixture",
	},
	{
		name:   "serve/page-of-today",
		breaks: "All pages of a list are of one moment.",
		file:   "serve/listing.go",
		old: `	if l.at == p.At {
		return p.Entries, nil
	}
`,
		new: `	if l.at != none {
		return p.Entries, nil
	}
`,
		test: "TestPagesAreOneState",
	},
	{
		name:   "serve/object-that-was-created-later",
		breaks: "An object that was created after a list's moment is not in its later pages.",
		file:   "serve/listing.go",
		old: `		_, changed := olds[e.Key]
		return changed
`,
		new: `		return olds[e.Key] != nil
`,
		test: "TestPagesAreOneState",
	},
	{
		name:   "serve/selected-all-along",
		breaks: "A watch with a selector tells of an object that is no longer selected as DELETED.",
		file:   "serve/watch.go",
		old:    "if was, err = w.selected(e.Old); err != nil {",
		new:    "if was, err = w.selected(e.After()); err != nil {",
		test:   "TestInformersSeeTheServersState",
	},
	{
		name:   "serve/watch-over-a-new-timeline",
		breaks: "A list of the mirror ends every watch from before with 410.",
		file:   "store/history/window.go",
		old: `	w.timeline++
	w.events, w.first, w.bytes, w.floor, w.rv, w.calm, w.known, w.unsettled = nil, 0, 0, floor, rv, 0, 0, false
`,
		new: `	w.floor, w.rv, w.unsettled = min(w.floor, floor), rv, false
`,
		test: "TestNewTimelineEndsWatches",
		dir:  "serve",
	},
	{
		name:   "serve/mirror-by-another-name",
		breaks: "A mirror serves what it is told by any spelling of a selector.",
		file:   "serve/source.go",
		old:    "id = canonical",
		new:    "_ = canonical",
		test:   "TestMirrorIsLive",
	},
	{
		name:   "serve/forwarded-for-all",
		breaks: "Who is refused what is forwarded does not find it in discovery.",
		file:   "serve/nonresource.go",
		old:    "case f == nil || !f.takes(q.r):",
		new:    "case f == nil:",
		test:   "TestForwardsTheRest",
	},
	{
		name:   "serve/known-to-all",
		breaks: "After a restart a watch tells of an object that the client does not know as ADDED.",
		file:   "store/history/window.go",
		old:    "return e.Since <= from",
		new:    "return e.Since > 0 || from > 0",
		test:   "TestHistoryOutlivesRestarts",
		dir:    "store",
	},
	{
		name:   "serve/an-event-a-second",
		breaks: "A watch that is idle sleeps.",
		file:   "serve/watch.go",
		old:    "if next = now.Add(bookmarkEvery); ending {",
		new:    "if next = now.Add(time.Second); ending {",
		test:   "TestIdleWatch",
	},
	{
		name:   "serve/gap-behind-a-trimmed-window",
		breaks: "A watch that the window has left behind ends with 410, and never skips events.",
		file:   "store/history/window.go",
		old:    "at.next < w.first {",
		new:    "at.next+1 < w.first {",
		test:   "TestTrimmed",
	},
	{
		name:   "serve/gap-before-a-trimmed-window",
		breaks: "A watch does not begin at a resourceVersion after which events have left the window.",
		file:   "store/history/window.go",
		old: `		w.floor = w.events[drop].RV
`,
		new:  "",
		test: "TestTrimmed",
	},
	{
		name:   "serve/numbers-of-a-trimmed-window",
		breaks: "Events keep their numbers when older events leave the window.",
		file:   "store/history/window.go",
		old: `	w.first += uint64(drop)
`,
		new:  "",
		test: "TestTrimmed",
	},
	{
		name:   "serve/list-of-another-timeline",
		breaks: "A list is not continued over a list of the mirror.",
		file:   "store/history/window.go",
		old:    "to.timeline != w.timeline ||",
		new:    "",
		test:   "TestUndoAndGrown",
	},
	{
		name:   "serve/list-over-a-disturbance",
		breaks: "A list from before the collection changed without events is not continued.",
		file:   "store/history/window.go",
		old:    "from.disturbed != to.disturbed ||",
		new:    "false ||",
		test:   "TestDisturbed",
	},
	{
		name:   "serve/recalled-has-no-old",
		breaks: "A watch with a selector does not begin where old objects are not known.",
		file:   "store/history/window.go",
		old:    "if whole && found.next < w.known {",
		new:    "if false {",
		test:   "TestRecalled",
	},
	{
		name:   "serve/recalled-below-the-floor",
		breaks: "Changes of the file that do not ascend give no watch.",
		file:   "store/history/window.go",
		old:    "!ascend(changes, floor-1, covers)",
		new:    "false",
		test:   "TestRecallPassesOver",
	},
	{
		name:   "serve/closed-goes-silent",
		breaks: "A watch ends with 410 when its collection is closed.",
		file:   "store/close.go",
		old: `	c.endHistory() // before the flush, which may wait for the disk
`,
		new:  "",
		test: "TestWatchOfAClosedCollectionEnds",
		dir:  "serve",
	},
	{
		name:   "serve/opened-goes-silent",
		breaks: "A watch of a closed collection ends with 410 when it is opened.",
		file:   "serve/watch.go",
		old:    "} else if gone, opened := w.reader.superseded(); gone {",
		new:    "} else if gone, opened := w.reader.superseded(); false && gone {",
		test:   "TestWatchOfAClosedCollectionEnds",
	},
	{
		name:   "serve/pages-of-two-states",
		breaks: "A list of a closed collection is cut off when the collection is opened.",
		file:   "serve/listing.go",
		old:    "if gone, _ := l.r.superseded(); gone || l.r.History() == nil && l.rv != p.Info.ResourceVersion {",
		new:    "if false {",
		test:   "TestListOfAnOpenedCollectionEnds",
	},
	{
		name:   "serve/listed-twice",
		breaks: "A list has an object once that changes after its page was sent.",
		file:   "serve/listing.go",
		old:    "key <= after || p.More && key > p.Last",
		new:    "p.More && key > p.Last",
		test:   "TestListWhileObjectsChange",
	},
	{
		name:   "serve/listed-early",
		breaks: "A list has an object once that changes before its page is sent.",
		file:   "serve/listing.go",
		old:    "p.More && key > p.Last ||",
		new:    "",
		test:   "TestListWhileObjectsChange",
	},
	{
		name:   "serve/listed-from-elsewhere",
		breaks: "A list of a namespace has no objects of another one that change meanwhile.",
		file:   "serve/listing.go",
		old:    " || !strings.HasPrefix(key, l.prefix())",
		new:    "",
		test:   "TestListWhileObjectsChange",
	},
}
