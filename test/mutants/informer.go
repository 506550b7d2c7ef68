package main

var informerMutants = []mutant{
	{
		name:   "informer/durable-acknowledged-before-offered",
		breaks: "The place of a durable handler does not pass a change before the handler was offered it.",
		file:   "informer/durable_run.go",
		old: `	w := d.works[c.Key]
	fresh := w == nil
`,
		new: `	pass()
	if err := d.acknowledge(); err != nil {
		return err
	}
	w := d.works[c.Key]
	fresh := w == nil
`,
		test: "TestDurableHandlerKilledInACall",
	},
	{
		name:   "informer/durable-replay-acknowledged-before-offered",
		breaks: "The place of a durable handler that begins anew does not pass an object before it was offered.",
		file:   "informer/durable_run.go",
		old: `		d.reportUnreadable(ctx, p.Unreadable)
		for _, c := range p.Changes {
			if err := d.take(ctx, c, func() { d.place.After = c.Key }); err != nil {
`,
		new: `		d.reportUnreadable(ctx, p.Unreadable)
		if end != "" {
			d.place.After = end
			if err := d.acknowledge(); err != nil {
				return err
			}
		}
		for _, c := range p.Changes {
			if err := d.take(ctx, c, func() { d.place.After = c.Key }); err != nil {
`,
		test: "TestDurableHandlerKilledInACall",
	},
	{
		name:   "informer/durable-reset-told-twice",
		breaks: "A restart in a replay goes on without another OnReset.",
		file:   "informer/durable_run.go",
		old: `		d.place.Told = true
`,
		new:  ``,
		test: "TestDurableHandlerKilledInACall",
	},
	{
		name:   "informer/durable-replay-begins-again",
		breaks: "A restart in a replay goes on with the objects that are left.",
		file:   "informer/durable_run.go",
		old: `			if err := d.take(ctx, c, func() { d.place.After = c.Key }); err != nil {
`,
		new: `			if err := d.take(ctx, c, func() {}); err != nil {
`,
		test: "TestDurableHandlerKilledInACall",
	},
	{
		name:   "informer/durable-failure-forgotten",
		breaks: "A change that a durable handler failed on is told again, after a restart too.",
		file:   "informer/durable_run.go",
		old: `			d.place.Failing[key] = w.changes[0].Seq
`,
		new: `			_, _ = key, w
`,
		test: "TestDurableHandlerFailsOverARestart",
	},
	{
		name:   "informer/durable-failing-not-recalled",
		breaks: "After a restart a durable handler is told of what had failed.",
		file:   "informer/durable_run.go",
		old: `	for key, w := range d.works {
		if err := d.offer(ctx, key, w, nil); err != nil {
			return err
		}
	}
	return d.acknowledge()
}

// replay tells`,
		new: `	clear(d.works)
	return d.acknowledge()
}

// replay tells`,
		test: "TestDurableHandlerFailsOverARestart",
	},
	{
		name:   "informer/durable-key-done-while-changed",
		breaks: "A key that changed while it was worked on stays due.",
		file:   "informer/durable_keys.go",
		old: `	k.mu.Lock()
	at, due := k.offered[text]
	k.mu.Unlock()
	return func(done bool) {
		if !done || !due {
			return
		}
		k.mu.Lock()
`,
		new: `	return func(done bool) {
		k.mu.Lock()
		at, due := k.offered[text]
		if !done || !due {
			k.mu.Unlock()
			return
		}
`,
		test: "TestDurableQueueChangesMeanwhile",
	},
	{
		name:   "informer/durable-answer-of-a-newer-change",
		breaks: "An answer counts for the change that it is of, and not for a newer one.",
		file:   "informer/durable_wait.go",
		old: `		for len(w.changes) > 0 && w.changes[0].Seq <= at.seq {
`,
		new: `		for len(w.changes) > 0 {
`,
		test: "TestDurableQueueChangesMeanwhile",
	},
	{
		name:   "informer/lost-object-not-told",
		breaks: "What a repair of the file has lost, and the server does not have any more, comes as OnDelete.",
		file:   "informer/list.go",
		old: `			out = append(out, store.Change{Type: cache.Deleted, Key: key})
`,
		new:  ``,
		test: "TestLostThenDeleted",
	},
	{
		name:   "informer/rewritten-body-not-told",
		breaks: "A body that a rewriting list has changed is told, although its resourceVersion is the same.",
		file:   "informer/list.go",
		old: `	p.tell(changes, p.rewrites)
`,
		new: `	p.tell(changes, false)
`,
		test: "TestAnotherBodyOfTheSameVersion",
	},
}
