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
		old:    "f != nil && f.takes(q.r)",
		new:    "f != nil",
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
}
