package reflector

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// list is one list in the state Relist. The Sink receives pages, and events of a watch beside the list (the folded
// watch), between BeginReplace and EndReplace:
//
//	page 1 (R1) ── page 2 (R1) ── … ── page n (R1, or later if its token had to be exchanged)
//	     └─ watch from R1 ── events ── bookmarks ──►  ends once it has reached every page's resourceVersion
//
// The result has for each key the last event, or otherwise the item: that is the state at the watch's resourceVersion.
type list struct {
	s          *session
	reason     Reason
	byMetadata bool
	begun      bool
	// delivered is true if the Sink has received an object in this list. before is the gate's dropCount at its start.
	delivered bool
	before    dropCount
	// fold is the resourceVersion that the watch beside the list has reached, initially that of the first page.
	fold progress
	// target is the resourceVersion that the watch beside the list must reach before the list ends: the highest in the
	// answers to the list's page and object requests.
	target string
	// at is a time at which the server had the list's state: when the first page was requested, or when the watch
	// beside the list last sent an event or bookmark.
	at     time.Time
	newest *listNewest
	pages  *pager
	tail   *tail
}

func (s *session) relist(ctx context.Context) outcome {
	s.guards.even = false
	reason, err := s.guards.verifyHook(ctx, s.watching.brokeAt)
	if err != nil {
		return s.lose(ctx, err)
	}
	reason = stronger(s.pos.Reason, reason)
	if o := s.seed(ctx, reason); o.Kind != "" {
		return o
	}
	l := newList(s, reason)
	l.pages = newPager(s)
	if l.byMetadata = s.byMetadata(ctx, reason); l.byMetadata {
		l.pages.metadata = true
	} else {
		l.pages.whole()
	}
	l.tail = &tail{l: l}
	if reason == ReasonListOnly {
		l.tail.dead = errListOnly
	}
	o := l.run(ctx)
	l.pages.close()
	if o.Kind == listed {
		s.watching.stream, s.watching.opening = l.tail.release()
		return l.finish(ctx)
	}
	l.tail.close(ctx)
	return l.abort(ctx, o)
}

func newList(s *session, reason Reason) *list {
	return &list{s: s, reason: reason, newest: newListNewest()}
}

func (l *list) abort(ctx context.Context, o outcome) outcome {
	if l.begun {
		defer l.s.conn.listing.releaseIfSlow()()
		if err := l.s.sink.AbortReplace(ctx); err != nil && o.Kind != stop {
			return l.s.sinkClosed(err)
		}
	}
	return o
}

func (l *list) run(ctx context.Context) outcome {
	l.pages.fetch(ctx, "")
	for {
		if l.complete() {
			return l.judge(ctx)
		}
		if l.tail.dead != nil && (l.pages.done || l.ahead()) {
			return l.unfinished(ctx)
		}
		var o outcome
		select {
		case <-ctx.Done():
			return outcome{Kind: stop}
		case p := <-l.pages.answers:
			o = l.take(ctx, p)
		case <-l.pages.retryC():
			l.pages.again(ctx)
		case a := <-l.tail.opening.answer():
			l.tail.accept(ctx, a)
		case ev, ok := <-l.tail.events():
			o = l.tail.handle(ctx, ev, ok)
		case <-l.tail.timerC():
			l.tail.alarm(ctx)
		}
		if o.Kind != "" {
			return o
		}
	}
}

// complete reports whether the last page has been delivered and the watch beside the list has reached the target
// resourceVersion. If resourceVersions cannot be compared, there is no watch beside the list, and the pages suffice.
func (l *list) complete() bool {
	return l.begun && l.pages.done && !l.ahead()
}

// ahead reports whether a page or a fetched object is newer than the resourceVersion that the watch beside the list has
// reached. The list then cannot end without the watch.
func (l *list) ahead() bool {
	return l.begun && l.fold.Comparable() && !l.fold.Reached(l.target)
}

// judge returns the outcome listed, or an error outcome if every object of the list was dropped as a stray or as of
// another shard. Such a list is of another collection and must not replace the stored objects.
func (l *list) judge(ctx context.Context) outcome {
	if err := l.s.gate.Judge(l.s.gate.Since(l.before), l.delivered); err != nil {
		return l.s.lose(ctx, l.s.conn.describe("failed to list", err))
	}
	return outcome{Kind: listed}
}

// take handles one page. It requests the next page first, so that the Sink and the server work at the same time.
func (l *list) take(ctx context.Context, p page) outcome {
	if p.overdue != nil {
		l.s.conn.report(ctx, p.overdue)
		l.s.conn.yield()
		l.pages.err = p.overdue
		return outcome{}
	}
	l.pages.fetching = false
	l.pages.learn(ctx, p)
	if p.err != nil {
		return l.pageFailed(ctx, p.err)
	}
	l.s.conn.received()
	l.s.conn.connected()
	l.pages.err = nil
	l.showErr()
	l.pages.backoff.Reset()
	if !l.begun {
		l.at = p.begun
		if l.comparesIdentities() && below(p.rv, l.s.cur.RV) {
			return l.s.guards.ahead(ctx, p.rv)
		}
		if err := l.begin(ctx, p.rv); err != nil {
			return l.s.sinkClosed(err)
		}
	}
	if l.pages.one != "" {
		return l.takeOne(ctx, p)
	}
	l.target = maxRV(l.target, p.rv)
	switch {
	case l.pages.metadata:
		return l.takeRefs(ctx, p)
	}
	return l.takeItems(ctx, p)
}

func (l *list) takeItems(ctx context.Context, p page) outcome {
	if l.pages.done = p.token == ""; !l.pages.done {
		l.pages.fetch(ctx, p.token)
		if l.fold.Comparable() {
			l.tail.ensure(ctx)
		}
	}
	refs := make([]entry.ObjectRef, 0, len(p.items))
	for _, obj := range p.items {
		if ref, err := l.s.gate.RefOf(obj); err == nil {
			refs = append(refs, ref)
		}
	}
	if key := l.rewound(refs); key != "" {
		return l.listForRewound(ctx, key)
	}
	if err := l.deliver(ctx, p.items); err != nil {
		return l.s.sinkClosed(err)
	}
	if l.pages.done && !l.complete() {
		l.tail.drain(ctx)
	}
	return outcome{}
}

// comparesIdentities reports whether this list treats an object with equal UID and resourceVersion as unchanged. That
// is wrong if the server was restored from a backup since the connection was lost, which no look-up has excluded yet.
func (l *list) comparesIdentities() bool { return !l.reason.Rewrites() && l.s.cur.Comparable() }

// rewound returns the key of one of the newest stored objects (session.newest) that the list has in another state, at a
// resourceVersion that was already delivered; "" if there is none. A key shows that the server was restored from a
// backup.
func (l *list) rewound(items []entry.ObjectRef) string {
	if !l.comparesIdentities() || len(l.s.newest.Refs) == 0 {
		return ""
	}
	for _, got := range items {
		for _, held := range l.s.newest.Refs {
			if held.Key == got.Key && checkHeld(held, l.s.cur.RV, got, true) == contradicts {
				return held.Key
			}
		}
	}
	return ""
}

// listForRewound aborts this list, because the server was restored from a backup. The next list replaces every stored
// object even if UID and resourceVersion are equal.
func (l *list) listForRewound(ctx context.Context, key string) outcome {
	klog.FromContext(ctx).Info("An object of the list is in another state than the one that we hold of it: "+rewound,
		"key", key,
		"resourceVersion", l.s.cur.RV)
	return l.s.listFor(ReasonRewound)
}

func (l *list) begin(ctx context.Context, rv string) error {
	level := 0
	if l.reason == ReasonListOnly {
		level = 2 // ReasonListOnly causes about a list a minute, so it is logged at a higher level
	}
	klog.FromContext(ctx).V(level).Info("Listing", "reason", l.reason, "resourceVersion", rv, "held", l.s.cur.RV)
	l.fold = progressAt(rv)
	l.before = l.s.gate.dropCount
	l.s.watching.fresh = true
	if l.reason != ReasonCold {
		l.s.r.board.update(func(st *Status) {
			if st.Relists == nil {
				st.Relists = map[Reason]int{}
			}
			st.Relists[l.reason]++
			st.LastRelist = l.reason
		})
	}
	l.begun = true
	defer l.s.conn.listing.releaseIfSlow()()
	if err := l.s.sink.BeginReplace(ctx, l.reason); err != nil {
		return err
	}
	l.s.r.begun(l.reason)
	return nil
}

// deliver passes at most Options.PageSize items to Sink.Page at a time, even if the server ignores the limit.
func (l *list) deliver(ctx context.Context, items []runtime.Object) error {
	good := items[:0]
	for _, obj := range items {
		if l.s.gate.LeaveOutItem(ctx, obj) {
			continue
		}
		ref, err := l.s.gate.RefOf(obj)
		if err == nil {
			err = l.s.gate.Admit(ref, obj)
		}
		if err != nil {
			l.s.gate.Skip(ctx, ref, err)
			continue
		}
		l.newest.Item(ref)
		good = append(good, obj)
	}
	l.delivered = l.delivered || len(good) > 0
	for chunk := range slices.Chunk(good, int(l.s.o.PageSize)) {
		taken := l.s.conn.listing.releaseIfSlow()
		err := l.s.sink.Page(ctx, chunk)
		taken()
		if err != nil {
			return err
		}
	}
	return nil
}

// foldIn delivers an event of the watch beside the list to the Sink, where it replaces the pages' item of its key.
func (l *list) foldIn(ctx context.Context, ev watch.Event) error {
	s := l.s
	if s.gate.LeaveOut(ctx, ev.Object) {
		l.fold.Advance(eventRV(ev))
		return nil
	}
	ref, ok := s.gate.Check(ctx, ev)
	if !ok {
		l.newest.Remove(ref.Key)
		return nil
	}
	defer s.conn.listing.releaseIfSlow()()
	if err := s.sink.Event(ctx, ev.Type, ev.Object, s.gate.Resumable(l.fold.Advance(ref.ResourceVersion))); err != nil {
		return err
	}
	l.delivered = true
	if ev.Type == watch.Deleted {
		l.newest.Remove(ref.Key)
	} else {
		l.newest.Put(ref)
	}
	return nil
}

// pageFailed handles an error of a page request. A failed first page fails the list. A later page is requested again,
// with the limit that the pager has learned, unless the page's continue token has expired or the request is refused.
func (l *list) pageFailed(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return outcome{Kind: stop}
	}
	switch {
	case l.pages.one != "" && refusesMetadata(err):
		l.s.lists.noMetadata = true
		l.s.conn.report(ctx, err)
		return l.again(err)
	case l.pages.one == "" && l.pages.metadata && refusesMetadata(err):
		return l.wholeInstead(ctx, err)
	case l.pages.tooLarge():
		l.s.conn.report(ctx, err)
		klog.FromContext(ctx).Info("The answers for two objects are cut off; fetching each by itself", "err", err)
		l.pages.whole()
		l.pages.fetch(ctx, l.pages.token)
		return outcome{}
	case !l.begun:
		return l.s.lose(ctx, err)
	}
	if token := exchanged(err); token != "" && l.fold.Comparable() && l.tail.dead == nil {
		klog.FromContext(ctx).V(2).Info("The list's history has run out; going on with a newer one and the watch", "err", err)
		l.pages.fetch(ctx, token)
		return outcome{}
	}
	l.s.conn.report(ctx, err)
	refused := rejected(err) && l.pages.refusals.again(l.pages.token, l.s.o.Clock.Now())
	noOther := exchanged(err) == "" || l.unwatched()
	if l.pages.token != "" && noOther && (isExpired(err) || apierrors.IsBadRequest(err) || refused) {
		// As in client-go's pager, the next list is a single request without a limit, since pages could fail again.
		klog.FromContext(ctx).Info("The server refuses its continue token and offers no other; listing in one answer", "err",
			err)
		l.s.lists.unpaged = true
		return outcome{Kind: mustList, Reason: l.reason}
	}
	if isExpired(err) || isTooLarge(err) || apierrors.IsBadRequest(err) {
		return l.again(err)
	}
	l.pages.retryLater(err)
	return outcome{}
}

func (l *list) showErr() {
	err := l.pages.err
	if err == nil {
		err = l.tail.err
	}
	l.s.r.board.update(func(st *Status) { st.Err = err })
}

// again aborts the list. A new list begins after a back-off; err determines its length.
func (l *list) again(err error) outcome {
	l.s.conn.lastErr = err
	return outcome{Kind: mustList, Reason: l.reason, Wait: true}
}

func (l *list) finish(ctx context.Context) outcome {
	s := l.s
	rv := ""
	if l.fold.Comparable() {
		rv = l.fold.RV
	}
	defer s.conn.listing.releaseIfSlow()()
	s.conn.contact(l.at)
	if err := s.sink.EndReplace(ctx, s.gate.Resumable(rv)); err != nil {
		return s.sinkClosed(err)
	}
	s.moveTo(l.fold)
	s.newest, s.guards.awaited, s.guards.target = l.newest.Result(), nil, ""
	s.watching.end, s.announced, s.guards.pending = lost, false, false
	s.lists.ended, s.lists.unpaged, s.watching.refusals = s.o.Clock.Now(), false, refusals{}
	// A list of a resource that is not watched does not show that the resource can be watched now.
	if l.reason != ReasonListOnly {
		s.conn.backoff.Reset()
	}
	if l.reason.Rewrites() {
		s.r.rewritten()
	}
	s.r.board.update(func(st *Status) { st.NotResumable = rv == "" })
	if rv == "" {
		klog.FromContext(ctx).Info("The server's resourceVersions cannot be compared: every start will list",
			"resourceVersion", l.fold.RV)
	}
	if err := s.synced(ctx); err != nil {
		return s.sinkClosed(err)
	}
	return outcome{Kind: listed}
}
