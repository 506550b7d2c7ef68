package informer

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/larder-dev/larder/entry"
)

// Observer receives events that Status does not record; package metrics implements it. Several goroutines of the
// informer may call it at a time, under no lock, and wait for it, so its methods must be fast. They may call only
// Status, Identity, File and SubscribeSource of the informer. If Informers share a collection, HandlerCalled is called
// on the Observer of the handler's Informer. Committed is called once per distinct Observer, with its first Informer.
type Observer interface {
	// InformerMade is called by New when it succeeds.
	InformerMade(i *Informer)
	// InformerEnded is called when the run ends, before another informer can open the collection. HandlerCalled may
	// follow, for a call that was still running.
	InformerEnded(i *Informer)
	// Committed is called after each attempt to write to the store, except for attempts that the end of the run has
	// cancelled.
	Committed(i *Informer, c Commit)
	// HandlerCalled is called when a handler's call has returned or panicked. handler is HandlerStatus.Name.
	HandlerCalled(i *Informer, handler string, took time.Duration)
}

// Commit is an attempt to commit all changes since the last commit: events, or a list or a part of it. For an informer
// without a file, a Commit describes a single write to memory.
type Commit struct {
	// Changes is the number of objects that were added, updated or deleted. It is 0 if only the resourceVersion
	// changed.
	Changes int
	Took    time.Duration
	// Err is nil if the attempt succeeded. Otherwise Changes is 0, and the same changes are attempted again.
	Err error
}

// observed wraps an attempt to write: it saves a write to memory in written, for reportWrite. With a file it returns
// attempt unchanged, because the store reports its commits.
func (p *loop) observed(attempt func() (entry.Result, error)) func() (entry.Result, error) {
	if p.file != nil {
		return attempt
	}
	return func() (entry.Result, error) {
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

// reportWrite reports the last write to memory to the observers. The caller holds no lock.
func (p *loop) reportWrite(ctx context.Context) {
	w := p.written
	p.written = nil
	if w != nil && (w.Err == nil || ctx.Err() == nil && !isClosed(w.Err)) {
		p.notifyObservers(*w)
	}
}

func (i *sharedInformer) notifyObservers(c Commit) {
	var notified []Observer
	for _, member := range i.attachedNow() {
		o := member.o.Observer
		comparable := o != nil && reflect.ValueOf(o).Comparable()
		if o == nil || comparable && slices.Contains(notified, o) {
			continue
		}
		if comparable {
			notified = append(notified, o)
		}
		o.Committed(member, c)
	}
}
