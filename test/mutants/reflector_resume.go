package main

var reflectorResumeMutants = []mutant{
	{
		name:   "reflector/list-only-frozen",
		breaks: "A resource that can be listed and not watched is listed again.",
		file:   "reflector/refused.go",
		old:    `	case !now.Before(r.listAt):`,
		new:    `	case false:`,
		test:   "TestListOnly",
	},
	{
		name:   "reflector/list-only-mixture",
		breaks: "Without a watch, an object that changes during a list by metadata leads to a list of whole objects.",
		file:   "reflector/bymetadata.go",
		old:    `	if !asListed || l.reason != ReasonListOnly {`,
		new:    `	if !asListed && l.reason != ReasonListOnly {`,
		test:   "TestListOnlyByMetadata",
	},
	{
		name:   "reflector/list-only-loop",
		breaks: "A resource that can be neither listed nor watched is retried with the back-off.",
		file:   "reflector/refused.go",
		old:    `	case s.pos.State != Degraded || rest <= 0:`,
		new:    `	case s.pos.State != Degraded:`,
		test:   "TestNeitherListedNorWatched",
	},
	{
		name:   "reflector/any-answer-is-contact",
		breaks: "An answer at another resourceVersion than the stored one does not make the data fresh.",
		file:   "reflector/session.go",
		old:    `	if rv != "" && rv == s.cur.RV {`,
		new:    `	if rv != "" {`,
		test:   "TestAgeOfTheState",
	},
	{
		name:   "reflector/opaque-version-kept",
		breaks: "Where resourceVersions cannot be compared, a watch resumes from the last event.",
		file:   "reflector/history.go",
		old:    `	case !c.comparable && rv != "" &&`,
		new:    `	case false && rv != "" &&`,
		test:   "TestOpaqueVersionsDoNotGoBack",
		dir:    "informer",
	},
	{
		name:   "reflector/must-relist-ignored",
		breaks: "No watch resumes from a checkpoint with a reason for a list.",
		file:   "reflector/session.go",
		old: `	reason := cp.Relist
	switch {
`,
		new: `	reason := cp.Relist[:0]
	switch {
`,
		test: "TestCheckpointWantsARelist",
	},
	{
		name:   "reflector/verify-not-asked",
		breaks: "Guard (b): Options.Verify is called at every connect.",
		file:   "reflector/verify.go",
		old: `		if reason, err := g.verifyHook(ctx, g.s.watching.brokeAt); reason != "" || err != nil {
			return g.refused(ctx, reason, err)
		}
	}
	if !g.s.cur.Comparable()`,
		new: `		_ = g.refused
	}
	if !g.s.cur.Comparable()`,
		test: "TestVerifyHook",
	},
	{
		name:   "reflector/newer-object-agrees",
		breaks: "Guard (c): the event of an object that is newer at the server must arrive, or the server was rewound.",
		file:   "reflector/history.go",
		old: `	case below(at, got.ResourceVersion):
		return changed
	}
`,
		new: `	case below(at, got.ResourceVersion):
		return agrees
	}
`,
		test: "TestLookupAheadOfTheProbe",
	},
	{
		name:   "reflector/rewound-not-noticed",
		breaks: "Guard (c): an object in another state at a resourceVersion that the stream has passed leads to a list.",
		file:   "reflector/history.go",
		old: `		return changed
	}
	return contradicts
`,
		new: `		return changed
	}
	return agrees
`,
		test: "TestRewoundServerHasOvertakenUs",
	},
	{
		name:   "reflector/gone-object-agrees",
		breaks: "Guard (c): the deletion of a missing object must arrive; otherwise the server was rewound.",
		file:   "reflector/history.go",
		old: `	case !found:
		return changed
`,
		new: `	case !found:
		return agrees
`,
		test: "TestRewoundServerHasOvertakenUs",
	},
	{
		name:   "reflector/older-event-explains",
		breaks: "Only an event with the compared state, or a later one, counts as the awaited event.",
		file:   "reflector/compare.go",
		old:    `!below(ref.ResourceVersion, d.Listed.ResourceVersion)`,
		new:    `true`,
		test:   "TestCompare",
	},
	{
		name:   "reflector/update-explains-a-delete",
		breaks: "An object that the comparison lacks is explained only by its DELETED event.",
		file:   "reflector/compare.go",
		old:    `return t == watch.Deleted`,
		new:    `return true`,
		test:   "TestCompare",
	},
	{
		name:   "reflector/deleted-and-awaited",
		breaks: "A new object under the name of one that was deleted contradicts nothing.",
		file:   "reflector/compare.go",
		old:    `d.Held = entry.ObjectRef{}`,
		new:    `_ = d`,
		test:   "TestCompare",
	},
	{
		name:   "reflector/waits-for-ever",
		breaks: "A watch that does not deliver announced changes is replaced by one that shows the reason.",
		file:   "reflector/watch.go",
		old:    `if rest <= 0 && s.guards.exact && s.pos.State == Drain {`,
		new:    `if false {`,
		test:   "TestAwaitedEventDoesNotCome",
	},
	{
		name:   "reflector/comparison-beside-a-rewind",
		breaks: "An object of the comparison at a resourceVersion that the stream has passed is a rewind.",
		file:   "reflector/compare.go",
		old:    `return false, g.s.listFor(ReasonRewound)`,
		new:    `return true, outcome{}`,
		test:   "TestComparisonContradicts",
	},
	{
		name:   "informer/comparison-cut-off",
		breaks: "A list with a continue token is no comparison.",
		file:   "informer/compare.go",
		old:    `if list.Continue != "" {`,
		new:    `if false {`,
		test:   "TestComparisonOfAnIncompleteList",
	},
	{
		name:   "reflector/doubts-forgotten",
		breaks: "Objects that a lost connection left unconfirmed are looked up first on the next.",
		file:   "reflector/compare.go",
		old: `	for _, d := range g.awaited {
`,
		new: `	for _, d := range (awaited{}) {
`,
		test: "TestAwaitedObjectsSurviveALostConnection",
	},
	{
		name:   "reflector/doubts-not-awaited",
		breaks: "A drain does not end before the events of unconfirmed objects have arrived.",
		file:   "reflector/compare.go",
		old:    `return len(g.awaited) == 0 && (g.exact || g.s.cur.Reached(g.target))`,
		new:    `return g.exact || g.s.cur.Reached(g.target)`,
		test:   "TestSeveralChangesAtOneVersion",
	},
	{
		name:   "reflector/synced-when-watching",
		breaks: "Synced is not called before the state of the server at the probe was delivered.",
		file:   "reflector/verify.go",
		old: `	case server != g.s.cur.RV:
		return outcome{Kind: behind}
	case g.s.watching.end != lost`,
		new: `	case server != g.s.cur.RV:
		return outcome{Kind: level}
	case g.s.watching.end != lost`,
		test: "TestDrainByBookmark",
	},
	{
		name:   "reflector/drain-ends-early",
		breaks: "A drain ends with the event or bookmark that reaches the probe's resourceVersion, not with the first.",
		file:   "reflector/compare.go",
		old:    `return len(g.awaited) == 0 && (g.exact || g.s.cur.Reached(g.target))`,
		new:    `return len(g.awaited) == 0`,
		test:   "TestModel",
	},
	{
		name:   "reflector/drain-never-ends",
		breaks: "A server without bookmarks has been drained after four silent watches.",
		file:   "reflector/watch.go",
		old: `	return s.watching.quiet >= quietDrains
`,
		new: `	return s.watching.quiet < 0
`,
		test: "TestDrainWithoutBookmarks",
	},
	{
		name:   "reflector/busy-server-never-drained",
		breaks: "A drain keeps its first target, so that it ends although the server is busy.",
		file:   "reflector/verify.go",
		old: `		if below(server, g.target) {
			g.target = server
		}
`,
		new: `		g.target = server
`,
		test: "TestDrainWhileBusy",
	},
	{
		name:   "reflector/backoff-not-doubled",
		breaks: "The back-off doubles up to 30 s.",
		file:   "reflector/pace.go",
		old: `	b.failures++
`,
		new:  ``,
		test: "TestBackoffCeilings",
	},
	{
		name:   "reflector/retry-after-ignored",
		breaks: "Retry-After is honoured.",
		file:   "reflector/pace.go",
		old: `	return retryAfter + rand.N(d+1)
`,
		new: `	return rand.N(d + 1)
`,
		test: "TestRetryAfterIsHonoured",
	},
	{
		name:   "reflector/backoff-never-reset",
		breaks: "After a watch that lived two minutes the back-off is short again.",
		file:   "reflector/watch.go",
		old: `	if s.o.Clock.Since(st.begun) >= healthyWatch {
		s.conn.backoff.Reset()
		s.lists.backoff.Reset()
	}
`,
		new:  ``,
		test: "TestBackoffIsResetByHealth",
	},
	{
		name:   "reflector/errors-put-off-lists",
		breaks: "Errors before a 410 do not delay its list.",
		file:   "reflector/session.go",
		old:    `		d = s.lists.backoff.Next(0)`,
		new:    `		d = s.conn.backoff.Next(0)`,
		test:   "TestBackoffEndsWithAList",
	},
	{
		name:   "reflector/lists-in-a-circle",
		breaks: "A server whose history is always too short is not listed without end.",
		file:   "reflector/session.go",
		old: `s.o.Clock.Since(s.lists.ended) < healthyWatch
`,
		new: `s.o.Clock.Since(s.lists.ended) > 1000*healthyWatch
`,
		test: "TestListsOfAnOddServerAreSpaced",
	},
	{
		name:   "reflector/continue-dropped",
		breaks: "A list has all pages.",
		file:   "reflector/list.go",
		old: `	if l.pages.done = p.token == ""; !l.pages.done {
`,
		new: `	if l.pages.done = true; !l.pages.done {
`,
		test: "TestPages",
	},
	{
		name:   "reflector/huge-pages",
		breaks: "Pages of large objects have fewer objects.",
		file:   "reflector/pace.go",
		old: `		l.Next = max(min(l.Next, pageBytes/meanSize), l.Least)
`,
		new: `		l.Next = max(l.Next, l.Least)
`,
		test: "TestPagesOfLargeObjects",
	},
	{
		name:   "reflector/silence-is-death",
		breaks: "A silent watch whose server has not moved on stays open.",
		file:   "reflector/watch.go",
		old: `	case rv == s.cur.RV:
		s.healthy()
`,
		new: `	case rv == "":
		s.healthy()
`,
		test: "TestSilenceIsNotDeath",
	},
	{
		name:   "reflector/compacted-at-the-next-event",
		breaks: "A watch that cannot pass a compaction of etcd counts as expired, whatever error the server returns.",
		file:   "reflector/answer.go",
		old:    "strings.Contains(err.Error(), noPrevious)",
		new:    "false && strings.Contains(err.Error(), noPrevious)",
		test:   "TestGoneIsExpired",
	},
	{
		name:   "reflector/list-only-interval",
		breaks: "A resource that cannot be watched is listed every 30 to 60 seconds, not more often.",
		file:   "reflector/refused.go",
		old:    `now.Add(listOnlyWait + rand.N(listOnlyWait) + `,
		new:    `now.Add(rand.N(2*listOnlyWait) + `,
		test:   "TestListOnly",
	},
	{
		name:   "reflector/list-only-unspread",
		breaks: "RelistSpread delays the lists of a resource that cannot be watched.",
		file:   "reflector/refused.go",
		old:    ` + rand.N(s.o.RelistSpread+1))`,
		new:    `)`,
		test:   "TestListOnlyIsSpread",
	},
	{
		name:   "reflector/list-only-late",
		breaks: "A run that has not synced yet lists at once if watches are denied.",
		file:   "reflector/refused.go",
		old:    `case r.listAt.IsZero() && s.served:`,
		new:    `case r.listAt.IsZero():`,
		test:   "TestListOnlyAfterARestart",
	},
	{
		name:   "reflector/list-only-unseen",
		breaks: "The status says that a resource cannot be watched.",
		file:   "reflector/refused.go",
		old: `	s.showListOnly(true)
`,
		new:  "",
		test: "TestListOnly",
	},
	{
		name:   "reflector/page-is-contact",
		breaks: "A page of a list that does not end does not make the data fresh.",
		file:   "reflector/list.go",
		old: `	l.s.conn.received()
	l.s.conn.connected()
`,
		new: `	l.s.conn.contact(l.s.o.Clock.Now())
	l.s.conn.connected()
`,
		test: "TestAgeOfTheState",
	},
	{
		name:   "reflector/old-bookmark-is-contact",
		breaks: "A bookmark from behind the stream does not make the data fresh.",
		file:   "reflector/event.go",
		old: `	if cur.RV != rv {
		return nil
	}
	s.conn.contact(s.o.Clock.Now())
`,
		new: `	s.conn.contact(s.o.Clock.Now())
	if cur.RV != rv {
		return nil
	}
`,
		test: "TestAgeWithAnOldBookmark",
	},
	{
		name:   "reflector/opaque-from-the-start",
		breaks: "A watch from no resourceVersion begins with objects in no order, and cannot resume from any of them.",
		file:   "reflector/history.go",
		old:    `case !c.comparable && rv != "" && c.RV != "" && c.RV != "0":`,
		new:    `case !c.comparable && rv != "":`,
		test:   "TestAdvance",
	},
}
