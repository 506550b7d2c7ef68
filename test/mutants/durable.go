package main

// durableMutants are deliberate faults that break promises of durable handlers. Their tests run whole informers.
var durableMutants = []mutant{
	{
		name:   "durable/acknowledged-before-offered",
		breaks: "The position of a durable handler does not pass a change before the handler was offered it.",
		file:   "informer/durable/follow.go",
		old: `	w := f.works[c.Key]
	switch {
`,
		new: `	if !f.position.Replaying {
		f.position.Seq = c.Seq
	}
	if err := f.notePosition(); err != nil {
		return err
	}
	w := f.works[c.Key]
	switch {
`,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/replay-acknowledged-before-offered",
		breaks: "The position of a durable handler that begins anew does not pass an object before it was offered.",
		file:   "informer/durable/follow.go",
		old: `	for _, c := range p.Changes {
		if err := f.take(ctx, c); err != nil {
`,
		new: `	for _, c := range p.Changes {
		if f.position.Replaying {
			f.position.After = c.Key
			if err := f.notePosition(); err != nil {
				return false, err
			}
		}
		if err := f.take(ctx, c); err != nil {
`,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/reset-reported-twice",
		breaks: "A restart during a replay continues without another OnReset.",
		file:   "informer/durable/follow.go",
		old: `		f.position.Notified = true
`,
		new:  ``,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/replay-begins-again",
		breaks: "A restart during a replay continues with the remaining objects.",
		file:   "informer/durable/follow.go",
		old: `		f.position.After = c.Key
	} else {
`,
		new: `		_ = c.Key
	} else {
`,
		test: "TestDurableHandlerKilledInACall",
		dir:  "informer",
	},
	{
		name:   "durable/failure-forgotten",
		breaks: "A change that a durable handler failed on is delivered again, also after a restart.",
		file:   "informer/durable/follow.go",
		old: `		f.position.Failing[key] = w.from
`,
		new: `		_, _ = key, w
`,
		test: "TestDurableHandlerFailsOverARestart",
		dir:  "informer",
	},
	{
		name:   "durable/failing-not-recalled",
		breaks: "After a restart a durable handler receives failed changes again.",
		file:   "informer/durable/follow.go",
		old: `		f.works[key] = &work{from: from, last: f.position.Seq, due: f.dueAt}
`,
		new: `		_, _ = key, from
`,
		test: "TestDurableHandlerFailsOverARestart",
		dir:  "informer",
	},
	{
		name:   "durable/key-done-while-changed",
		breaks: "A key that changed while it was worked on stays due.",
		file:   "informer/durable/handlers.go",
		old: `	seq, epoch := k.f.offeredOf(text)
	return func(done bool) {
`,
		new: `	return func(done bool) {
		seq, epoch := k.f.offeredOf(text)
`,
		test: "TestDurableQueueChangesMeanwhile",
		dir:  "informer",
	},
	{
		name:   "durable/answer-of-a-newer-change",
		breaks: "An acknowledgement counts for its own change, and not for a newer one.",
		file:   "informer/durable/follower.go",
		old: `			if seq >= w.last {
`,
		new: `			if seq > 0 {
`,
		test: "TestDurableQueueChangesMeanwhile",
		dir:  "informer",
	},
}
