package main

// The tests of what durable handlers promise run whole informers.
var durableMutants = []mutant{
	{
		name:   "durable/acknowledged-before-offered",
		breaks: "The position of a durable handler does not pass a change before the handler was offered it.",
		file:   "informer/durable/follow.go",
		old: `	w := f.works[c.Key]
	fresh := w == nil
`,
		new: `	pass()
	if err := f.acknowledge(); err != nil {
		return err
	}
	w := f.works[c.Key]
	fresh := w == nil
`,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/replay-acknowledged-before-offered",
		breaks: "The position of a durable handler that begins anew does not pass an object before it was offered.",
		file:   "informer/durable/follow.go",
		old: `		f.reportUnreadable(ctx, p.Unreadable)
		for _, c := range p.Changes {
			if err := f.take(ctx, c, func() { f.position.After = c.Key }); err != nil {
`,
		new: `		f.reportUnreadable(ctx, p.Unreadable)
		if end != "" {
			f.position.After = end
			if err := f.acknowledge(); err != nil {
				return err
			}
		}
		for _, c := range p.Changes {
			if err := f.take(ctx, c, func() { f.position.After = c.Key }); err != nil {
`,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/reset-told-twice",
		breaks: "A restart in a replay goes on without another OnReset.",
		file:   "informer/durable/follow.go",
		old: `		f.position.Told = true
`,
		new:  ``,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/replay-begins-again",
		breaks: "A restart in a replay goes on with the objects that are left.",
		file:   "informer/durable/follow.go",
		old: `			if err := f.take(ctx, c, func() { f.position.After = c.Key }); err != nil {
`,
		new: `			if err := f.take(ctx, c, func() {}); err != nil {
`,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/failure-forgotten",
		breaks: "A change that a durable handler failed on is told again, after a restart too.",
		file:   "informer/durable/follow.go",
		old: `			f.position.Failing[key] = w.changes[0].Seq
`,
		new: `			_, _ = key, w
`,
		test: "TestDurableHandlerFailsOverARestart",
		dir:  "informer",
	},
	{
		name:   "durable/failing-not-recalled",
		breaks: "After a restart a durable handler is told of what had failed.",
		file:   "informer/durable/follow.go",
		old: `	for key, w := range f.works {
		if err := f.offer(ctx, key, w, nil); err != nil {
			return err
		}
	}
	return f.acknowledge()
}

// replay delivers`,
		new: `	clear(f.works)
	return f.acknowledge()
}

// replay delivers`,
		test: "TestDurableHandlerFailsOverARestart",
		dir:  "informer",
	},
	{
		name:   "durable/key-done-while-changed",
		breaks: "A key that changed while it was worked on stays due.",
		file:   "informer/durable/keys.go",
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
		dir:  "informer",
	},
	{
		name:   "durable/answer-of-a-newer-change",
		breaks: "An answer counts for the change that it is of, and not for a newer one.",
		file:   "informer/durable/wait.go",
		old: `		for len(w.changes) > 0 && w.changes[0].Seq <= at.seq {
`,
		new: `		for len(w.changes) > 0 {
`,
		test: "TestDurableQueueChangesMeanwhile",
		dir:  "informer",
	},
}
