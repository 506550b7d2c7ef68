package main

var reflectorMutants = []mutant{
	{
		name:   "reflector/denied-is-listed",
		breaks: "A resource of which lists are denied as well does not count as listed.",
		file:   "reflector/refused.go",
		old:    `if s.guards.comparing && !s.r.Status().ListOnly {`,
		new:    `if false {`,
		test:   "TestListsAreDeniedToo",
	},
	{
		name:   "reflector/bookmark-of-zero",
		breaks: `A bookmark with the resourceVersion "0" names no state, and changes nothing.`,
		file:   "reflector/history.go",
		old: `	if rv == "0" {
		rv = ""
	}
`,
		new:  ``,
		test: "TestAdvance",
	},
	{
		name:   "reflector/refused-tokens-in-a-circle",
		breaks: "A server that refuses every continue token is listed in one answer.",
		file:   "reflector/list.go",
		old: `		l.s.lists.unpaged = true
`,
		new:  ``,
		test: "TestTokenIsAlwaysRefused",
	},
	{
		name:   "limiter/hanging-requests-count",
		breaks: "A request that has no answer for 250 ms holds no slot that others need.",
		file:   "internal/limiter/slot.go",
		old: `		p.silent++
		p.taken--
`,
		new: `		p.silent++
`,
		test: "TestHangingResourcesDoNotHurtOthers",
		dir:  "reflector",
	},
	{
		name:   "limiter/hanging-requests-unbounded",
		breaks: "At most 64 requests that have no answer do not count.",
		file:   "internal/limiter/slot.go",
		old:    `t.silent == 0 && p.silent == maxSilent`,
		new:    `t.silent == 0 && p.silent > 1000`,
		test:   "TestSilentSlots",
	},
	{
		name:   "reflector/refused-for-ever",
		breaks: "A watch that is refused again and again, though the server has moved on, is given up for a list.",
		file:   "reflector/refused.go",
		old: `	case rv == s.cur.RV && s.served:
`,
		new: `	case rv == s.cur.RV || s.served:
`,
		test: "TestRefusedWatch",
	},
	{
		name:   "reflector/refused-at-once",
		breaks: "A list follows only if watches have been refused for ten seconds.",
		file:   "reflector/refused.go",
		old:    `r.n >= enoughRefusals && now.Sub(r.first) >= refusedTime`,
		new:    `r.n >= enoughRefusals`,
		test:   "TestRefusedWatch",
	},
	{
		name:   "reflector/lost-connection-is-a-bad-event",
		breaks: "A connection that http2 loses in the middle of a watch causes no list.",
		file:   "reflector/answer.go",
		old:    `"http2: ", "stream error: ",`,
		new:    `"http2: ",`,
		test:   "TestTransportErrorsCauseNoList",
	},
	{
		name:   "reflector/slow-reconnect-trusted",
		breaks: "A server that took a second to accept the next watch may be another one: five objects are looked up.",
		file:   "reflector/verify.go",
		old: `	case e == lost || accepted.Sub(g.s.watching.endedAt) > swiftly:
`,
		new: `	case e == lost:
`,
		test: "TestRewoundBetweenWatches",
	},
	{
		name:   "reflector/guard-after-delivery",
		breaks: "The guards run before any event of the watch is delivered.",
		file:   "reflector/watch.go",
		old: `		if o := s.guards.guard(ctx); o.Kind != "" {
			return o
		}
`,
		new: `		select {
		case ev := <-st.w.ResultChan():
			if o := s.handle(ctx, ev); o.Kind != "" {
				return o
			}
		case <-s.o.Clock.After(1e9):
		}
		if o := s.guards.guard(ctx); o.Kind != "" {
			return o
		}
`,
		test: "TestRewoundAndPastUs",
	},
	{
		name:   "reflector/contradicting-event-delivered",
		breaks: "An event whose object has another UID than the stored one is not delivered.",
		file:   "reflector/watch.go",
		old: `	if s.contradicts(ev) {
`,
		new: `	if s.contradicts(ev) && ev.Object == nil {
`,
		test: "TestEventOfAnotherObjectIsNotDelivered",
	},
	{
		name:   "reflector/rewound-list-trusted",
		breaks: "A list that contradicts a stored object is replaced by a list that compares bodies.",
		file:   "reflector/list.go",
		old: `	if key := l.rewound(refs); key != "" {
		return l.listForRewound(ctx, key)
	}
	if err := l.deliver(ctx, p.items)`,
		new:  `	if err := l.deliver(ctx, p.items)`,
		test: "TestListOfARewoundServer",
	},
	{
		name:   "reflector/list-behind-us-trusted",
		breaks: "A list from a server below the stored resourceVersion compares bodies.",
		file:   "reflector/list.go",
		old: `		if l.comparesIdentities() && below(p.rv, l.s.cur.RV) {
			return l.s.guards.ahead(ctx, p.rv)
		}
`,
		new:  ``,
		test: "TestListOfARewoundServer",
	},
	{
		name:   "reflector/watch-timeout-fixed",
		breaks: "Watches last five to ten minutes, at random, so that the watches of a fleet do not end together.",
		file:   "reflector/watch.go",
		old: `	return 5*time.Minute + rand.N(5*time.Minute)
`,
		new: `	return 5*time.Minute + rand.N(time.Nanosecond)
`,
		test: "TestWatchesLastFiveToTenMinutes",
	},
	{
		name:   "reflector/too-large-ignored",
		breaks: "A resourceVersion that the server does not know yet leads to a list.",
		file:   "reflector/watch.go",
		old: `	case isTooLarge(err):
		reason = ReasonAhead
`,
		new:  ``,
		test: "TestTooLarge",
	},
	{
		name:   "reflector/server-error-lists",
		breaks: "A 5xx never causes a list.",
		file:   "reflector/answer.go",
		old:    "apierrors.IsGone(err) ||\n",
		new:    "apierrors.IsGone(err) || apierrors.IsInternalError(err) ||\n",
		test:   "TestErrorsOfTheWatchRequest",
	},
	{
		name:   "reflector/throttled-lists",
		breaks: "A 429 never causes a list.",
		file:   "reflector/answer.go",
		old:    "apierrors.IsGone(err) ||\n",
		new:    "apierrors.IsGone(err) || apierrors.IsTooManyRequests(err) ||\n",
		test:   "TestErrorsOfTheWatchRequest",
	},
	{
		name:   "reflector/unauthorized-lists",
		breaks: "A 401 never causes a list.",
		file:   "reflector/answer.go",
		old:    "apierrors.IsGone(err) ||\n",
		new:    "apierrors.IsGone(err) || apierrors.IsUnauthorized(err) ||\n",
		test:   "TestErrorsOfTheWatchRequest",
	},
	{
		name:   "reflector/not-found-lists",
		breaks: "A 404 never causes a list.",
		file:   "reflector/answer.go",
		old:    "apierrors.IsGone(err) ||\n",
		new:    "apierrors.IsGone(err) || apierrors.IsNotFound(err) ||\n",
		test:   "TestDenied",
	},
	{
		name:   "reflector/expired-ignored",
		breaks: "A 410 leads to a list.",
		file:   "reflector/watch.go",
		old: `	case isExpired(err):
		reason = ReasonExpired
`,
		new:  ``,
		test: "TestExpired",
	},
	{
		name:   "reflector/bookmark-not-delivered",
		breaks: "A bookmark reaches the sink.",
		file:   "reflector/event.go",
		old: `		return nil
	}
	return s.reportPosition(ctx)
`,
		new: `		return nil
	}
	return nil
`,
		test: "TestDrainByBookmark",
	},
	{
		name:   "reflector/bookmark-goes-back",
		breaks: "The resourceVersion of the stream never goes back.",
		file:   "reflector/event.go",
		old: `	at := cur.Advance(rv)
	if cur.RV != rv {
		return nil
	}
`,
		new: `	cur.RV = rv
	at := rv
`,
		test: "TestOddEvents",
	},
	{
		name:   "reflector/resumes-from-the-start",
		breaks: "A watch resumes from the newest delivered resourceVersion.",
		file:   "reflector/event.go",
		old: `	s.moveTo(cur)
	s.unreported = s.unreported && rv == ""
`,
		new: `	s.unreported = s.unreported && rv == ""
`,
		test: "TestResumeDrains",
	},
	{
		name:   "reflector/event-goes-back",
		breaks: "An event with an older resourceVersion does not move the stream back.",
		file:   "reflector/history.go",
		old: `	c.RV = maxRV(c.RV, rv)
`,
		new: `	c.RV = rv
`,
		test: "TestOddEvents",
	},
	{
		name:   "reflector/skipped-moves-on",
		breaks: "An event that cannot be delivered does not move the stream on.",
		file:   "reflector/event.go",
		old: `	if !ok {
		s.newest.Remove(ref.Key)
		delete(s.guards.awaited, ref.Key)
		return nil
	}
	s.conn.contact(s.o.Clock.Now())
`,
		new: `	if !ok {
		s.newest.Remove(ref.Key)
		delete(s.guards.awaited, ref.Key)
		cur := s.cur
		cur.Advance(ref.ResourceVersion)
		s.moveTo(cur)
		return nil
	}
	s.conn.contact(s.o.Clock.Now())
`,
		test: "TestOddEvents",
	},
	{
		name:   "reflector/list-of-strays-replaces",
		breaks: "A list of nothing but strays is aborted.",
		file:   "reflector/gate.go",
		old: `	case by.Strays > 0 && !delivered:
`,
		new: `	case by.Strays > 0 && delivered && false:
`,
		test: "TestListOfStraysOnly",
	},
	{
		name:   "reflector/list-of-another-shard-replaces",
		breaks: "A list of nothing but objects of another shard is aborted.",
		file:   "reflector/gate.go",
		old: `	case !delivered && g.isOtherShard(by.foreign):
`,
		new: `	case !delivered && g.isOtherShard(by.foreign) && by.Strays > 0:
`,
		test: "TestListOfAnotherShard",
	},
	{
		name:   "reflector/opaque-rv-delivered",
		breaks: "resourceVersions that cannot be compared are never delivered.",
		file:   "reflector/history.go",
		old: `		c.RV = rv
	}
	return ""
`,
		new: `		c.RV = rv
	}
	return rv
`,
		test: "TestOpaqueVersions",
	},
	{
		name:   "reflector/smallest-page-again-and-again",
		breaks: "Where a server cuts off the smallest page, its objects are fetched one by one.",
		file:   "reflector/pager.go",
		old:    `p.s.lists.cutPages, p.s.lists.byName = 0, true`,
		new:    `p.s.lists.cutPages, p.s.lists.byName = 0, false`,
		test:   "TestThinListCutByTheServer",
	},
}
