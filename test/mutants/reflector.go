package main

var reflectorMutants = []mutant{
	{
		name:   "reflector/slow-reconnect-trusted",
		breaks: "A server that took a second to accept the next watch may be another one: five objects are looked up.",
		file:   "reflector/verify.go",
		old: `	case e == lost || accepted.Sub(s.endedAt) > swiftly:
`,
		new: `	case e == lost:
`,
		test: "TestRewoundBetweenWatches",
	},
	{
		name:   "reflector/guard-after-delivery",
		breaks: "The guards are asked before anything of the watch is delivered.",
		file:   "reflector/watch.go",
		old: `		if o := s.guard(ctx); o.Kind != "" {
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
		if o := s.guard(ctx); o.Kind != "" {
			return o
		}
`,
		test: "TestRewoundAndPastUs",
	},
	{
		name:   "reflector/contradicting-event-delivered",
		breaks: "An event about another object than the one held under its key is not delivered.",
		file:   "reflector/watch.go",
		old: `	if s.contradicts(ev) {
`,
		new: `	if s.contradicts(ev) && ev.Object == nil {
`,
		test: "TestEventOfAnotherObjectIsNotDelivered",
	},
	{
		name:   "reflector/rewound-list-trusted",
		breaks: "A list in which a held object is in another state gives way to one that compares bodies.",
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
		breaks: "A list from a server that is behind us compares bodies.",
		file:   "reflector/list.go",
		old: `		if l.unsure() && below(p.rv, l.s.cur.rv) {
			return l.s.ahead(ctx, p.rv)
		}
`,
		new:  ``,
		test: "TestListOfARewoundServer",
	},
	{
		name:   "reflector/watch-timeout-fixed",
		breaks: "Watches last five to ten minutes, at random, so that a fleet's do not end together.",
		file:   "reflector/stream.go",
		old: `	return 5*time.Minute + rand.N(5*time.Minute)
`,
		new: `	return 5*time.Minute + rand.N(time.Nanosecond)
`,
		test: "TestWatchesLastFiveToTenMinutes",
	},
}
