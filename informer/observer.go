package informer

import (
	"context"
	"time"

	"github.com/larder-dev/larder/store"
)

// Observer is told what Status cannot say afterwards; package metrics has one. The goroutines that do the work call
// it, several at a time, and wait for it: its methods must be fast. They may call Status, Identity, File and
// SubscribeSource, and nothing else of the informer.
type Observer interface {
	// InformerMade is called by New when it succeeds.
	InformerMade(i *Informer)
	// InformerEnded is called when the run ends and before another informer can have the collection. A call that a
	// handler is making then, and so HandlerCalled, may come after it.
	InformerEnded(i *Informer)
	// Committed is called after each attempt to write to the store. Those that the end of the run has cut short are left
	// out.
	Committed(i *Informer, c Commit)
	// HandlerCalled is called when a call of a handler has returned or panicked. handler is HandlerStatus.Name.
	HandlerCalled(i *Informer, handler string, took time.Duration)
}

// Commit is an attempt of the store to commit what it was given since the last one: events, or a list or a part of one.
// Of an informer without a file it is what was given to the store at once.
type Commit struct {
	// Changes is the number of objects that were added, updated or deleted. It is 0 where only the resourceVersion moved.
	Changes int
	Took    time.Duration
	// Err is nil if it succeeded. If not, Changes is 0, and the same changes are tried again.
	Err error
}

// observed notes what an attempt writes to memory, for reportWrite. Of a file the store tells what is committed.
func (p *loop) observed(attempt func() (store.Result, error)) func() (store.Result, error) {
	if p.o.Observer == nil || p.file != nil {
		return attempt
	}
	return func() (store.Result, error) {
		begun := p.clock.Now()
		res, err := attempt()
		switch {
		case err != nil:
			p.written = &Commit{Took: p.clock.Since(begun), Err: err}
		case !res.Staged:
			p.written = &Commit{Changes: len(res.Changes), Took: p.clock.Since(begun)}
		}
		return res, err
	}
}

// reportWrite tells the observer what was written. The caller holds no lock.
func (p *loop) reportWrite(ctx context.Context) {
	w := p.written
	p.written = nil
	if w != nil && (w.Err == nil || ctx.Err() == nil && !isClosed(w.Err)) {
		p.o.Observer.Committed(p.Informer, *w)
	}
}
