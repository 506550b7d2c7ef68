package reflector

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
)

type lists struct {
	limit, metadataLimit pageLimit
	// noMetadata is true once the server has refused lists of metadata. busy is true once a list of metadata could not
	// end, because objects changed while they were fetched and there was no watch to deliver the changes.
	noMetadata, busy bool
	// unpaged is true if the next list must be a single request without a limit, because the server has refused a
	// continue token and offered no other token.
	unpaged bool
	// byName is true while even the smallest pages of whole objects break off before they are complete. Then objects
	// are fetched one by one, by the names in pages of metadata, until each object of a page has arrived in less than
	// promptPage. cutPages counts consecutive smallest pages that broke off.
	byName   bool
	cutPages int
	patience patience
	ended    time.Time
	// backoff determines the wait before a list that follows another list within two minutes (healthyWatch).
	backoff backoff
}

func newLists(r *Reflector) lists {
	return lists{limit: newPageLimit(r.o.PageSize), metadataLimit: newPageLimit(r.o.PageSize)}
}

type page struct {
	items []runtime.Object
	rv    string
	token string
	err   error
	// begun is when the page request began, by Options.Clock. The first page of a list is at least as new as the
	// server's state at that time.
	begun time.Time
	// meanSize is the mean size of the page's objects in bytes. took is the duration of the request, even of a failed
	// request. Both values determine the limit of the next page.
	meanSize int64
	took     time.Duration
	// overdue is not nil if this value only says that the request has outlived its time-out. The page itself follows in
	// another value.
	overdue error
}

type pager struct {
	s     *session
	token string
	limit int64
	// metadata is true while the list requests metadata instead of whole objects (list.takeRefs). missing lists the
	// objects of the last page of metadata that are still to be fetched, and after is the continue token of the next
	// page. one is the key of the object that is being fetched; "" while a page is requested.
	metadata bool
	missing  []entry.ObjectRef
	after    string
	one      string
	// named is true while a page of metadata has the size of the smallest page and each object of the page is fetched,
	// whether or not the Sink has it (see lists.byName). slow is true if one of these fetches took so long that a page
	// of two objects would break off.
	named, slow bool
	// answers receives the answer to each request. If a request outlives its time-out, answers first receives a page
	// with overdue set. fetching is true until the answer has been received.
	answers  chan page
	fetching bool
	done     bool
	retry    clock.Timer
	refusals refusals
	err      error
	backoff  backoff
	cancel   context.CancelFunc
}

func newPager(s *session) *pager {
	return &pager{s: s, answers: make(chan page, 2), cancel: func() {}}
}

// fetch requests the page at a continue token. The caller must have received the answer to the previous request.
func (p *pager) fetch(ctx context.Context, token string) {
	p.token, p.one = token, ""
	p.ask(ctx)
}

// fetchOne requests one object by its key. The caller must have received the answer to the previous request.
func (p *pager) fetchOne(ctx context.Context, key string) {
	p.one = key
	p.ask(ctx)
}

func (p *pager) ask(ctx context.Context) {
	p.cancel()
	ctx, p.cancel = context.WithCancel(ctx)
	p.fetching = true
	o := metav1.ListOptions{Limit: p.limits().Next, Continue: p.token}
	if p.named {
		o.Limit = p.limits().Least
	}
	if p.s.lists.unpaged {
		o.Limit = 0
	}
	if p.one != "" {
		o = metav1.ListOptions{Limit: 1, FieldSelector: keySelector(p.one)}
	}
	p.limit = o.Limit
	within := requestTimeout
	if p.smallest() {
		within = p.s.lists.patience.Time()
	}
	lw := p.s.conn.lw
	if p.one == "" && p.metadata {
		lw, _ = p.s.metadataLister()
	}
	go func() {
		if err := p.s.conn.listing.acquire(ctx); err != nil {
			p.answers <- page{err: err}
			return
		}
		p.count(o)
		p.answers <- p.request(ctx, lw, within, o)
	}()
}

func (p *pager) count(o metav1.ListOptions) {
	p.s.r.board.update(func(st *Status) {
		if p.one == "" {
			st.Pages++
			if o.Continue == "" {
				st.Lists++
			}
			return
		}
		st.Probes++
		st.Fetches++
	})
}

func (p *pager) limits() *pageLimit {
	if p.metadata {
		return &p.s.lists.metadataLimit
	}
	return &p.s.lists.limit
}

// smallest reports whether the current request cannot be split: it is for one object, or for a page of the least limit.
func (p *pager) smallest() bool { return p.one != "" || p.limit <= p.limits().Least }

// whole makes the next pages consist of whole objects. If even the smallest pages of whole objects break off, the next
// pages contain only names, and each object is fetched by its name.
func (p *pager) whole() {
	_, possible := p.s.metadataLister()
	p.named = p.s.lists.byName && possible
	p.metadata, p.slow = p.named, false
}

// tooLarge reports whether to fetch the objects of the failed page one by one, since even the smallest pages break off.
func (p *pager) tooLarge() bool {
	_, possible := p.s.metadataLister()
	return p.s.lists.byName && !p.metadata && p.one == "" && possible
}

func (p *pager) request(ctx context.Context, lw requests, within time.Duration, o metav1.ListOptions) page {
	begun, at := time.Now(), p.s.o.Clock.Now()
	list, m, err := lw.List(ctx, within, o, func(err error) {
		p.answers <- page{overdue: p.s.conn.describe("failed to list", err)}
	})
	took := time.Since(begun)
	if err != nil {
		return page{err: p.s.conn.describe("failed to list", err), took: took}
	}
	// The items are copied from the list. Otherwise one retained object would keep the whole page in memory.
	items, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return page{err: p.s.conn.describe("read the list of", err)}
	}
	return page{
		items: items, rv: m.GetResourceVersion(), token: m.GetContinue(), begun: at, meanSize: meanSize(items),
		took: took,
	}
}

// learn sets the limit of the next page from the size and duration of this page, unless the request was refused.
func (p *pager) learn(ctx context.Context, got page) {
	if p.smallest() {
		p.learnSmallest(got)
	}
	switch {
	case p.one != "" || p.named:
		p.slow = p.slow || got.took >= promptPage
	case p.limit == 0:
		// If an answer without a limit breaks off, the next list has pages again.
		p.s.lists.unpaged = got.err == nil || !isCut(got.err)
	case got.err == nil:
		p.limits().Arrived(p.limit, len(got.items), got.meanSize, got.took)
	case isCut(got.err):
		p.limits().Cut(p.limit, got.took)
		klog.FromContext(ctx).V(2).Info("A page was too large for the link or its time", "limit", p.limit, "next",
			p.limits().Next)
	}
}

// learnSmallest sets lists.byName if the smallest page broke off twice in a row. One time is not enough, since a lost
// connection looks the same as an answer that is too large.
func (p *pager) learnSmallest(got page) {
	if !p.s.lists.patience.Learn(got.took, got.err) {
		p.s.lists.cutPages = 0
		return
	}
	if p.metadata || p.one != "" { // only pages of whole objects count
		return
	}
	if p.s.lists.cutPages++; p.s.lists.cutPages == 2 {
		p.s.lists.cutPages, p.s.lists.byName = 0, true
	}
}

// retryLater starts the back-off before the failed page request is repeated. It releases the slot to list, so that
// other reflectors can list meanwhile.
func (p *pager) retryLater(err error) {
	p.err = err
	p.retry = p.s.o.Clock.NewTimer(p.backoff.Next(retryAfter(err)))
	p.s.conn.listing.release()
}

func (p *pager) retryC() <-chan time.Time {
	if p.retry == nil {
		return nil
	}
	return p.retry.C()
}

func (p *pager) again(ctx context.Context) {
	p.retry = nil
	p.ask(ctx)
}

func (p *pager) close() {
	p.cancel()
	for p.fetching {
		p.fetching = (<-p.answers).overdue != nil
	}
	if p.retry != nil {
		p.retry.Stop()
	}
}
