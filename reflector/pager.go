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
	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// lists is a run's knowledge of the list requests that its ListerWatcher and server support.
type lists struct {
	// limit is the limit of the next page of whole objects, metadataLimit the limit of the next page by metadata.
	limit, metadataLimit pace.Limit
	// noMetadata is true once the server has refused lists by metadata. busy is true once a list by metadata could not
	// end, because objects changed during it and there was no watch.
	noMetadata, busy bool
	// unpaged requests the next list as one answer without a limit, because the server has refused a continue token and
	// offered no other.
	unpaged bool
	// byName is true while the smallest pages are cut off before they are complete: then whole objects are fetched one
	// by one, by the names in pages of metadata, until each object of a range has arrived in less than pace.PromptPage.
	// cutPages counts the smallest pages in a row that were cut off.
	byName   bool
	cutPages int
	// patience adapts the time-out of the smallest request to a thin link.
	patience pace.Patience
	// ended is when the last list ended; zero before.
	ended time.Time
	// backoff counts the lists in a row that each followed the previous one within pace.Health.
	backoff pace.Backoff
}

func newLists(r *Reflector) lists {
	return lists{limit: pace.NewLimit(r.o.PageSize), metadataLimit: pace.NewLimit(r.o.PageSize)}
}

// page is the answer to one list request.
type page struct {
	items []runtime.Object
	rv    string
	token string // continue token of the next page; empty for the last page
	err   error
	// begun is when the request began, by Options.Clock. The first page of a list is at least as new as the server's
	// state at that time.
	begun time.Time
	// meanSize is the mean size of the items. took is the duration of the request, also if it failed. Both set the limit
	// of the next page.
	meanSize int64
	took     time.Duration
	// overdue is not nil if this is not the answer but a note that the request is overdue. The pager still waits for
	// the answer.
	overdue error
}

// pager fetches one page at a time, on a goroutine that it owns.
type pager struct {
	s *session
	// token and limit are the parameters of the page that was requested last.
	token string
	limit int64
	// metadata is true while pages are requested by metadata (see takeRefs). missing lists the objects of the last page
	// by metadata that are still to be fetched, and after is the token of the page after it. one is the key of the
	// object that is being fetched; "" for a page.
	metadata bool
	missing  []entry.ObjectRef
	after    string
	one      string
	// named is true while a range as small as the smallest page comes by metadata, and each of its objects is fetched,
	// held or not (see lists.byName). slow is true if one of them took so long that two would be cut off.
	named, slow bool
	// answers receives the page. If the request is overdue, it receives a page with overdue set before that. fetching
	// is true until the answer has been taken.
	answers  chan page
	fetching bool
	// done is true once the last page has been taken.
	done bool
	// retry is the timer for the retry of a failed page; nil if none is due.
	retry clock.Timer
	// refusals counts the refusals of the continue token.
	refusals refusals
	// err is the error of the last page; nil if it succeeded.
	err     error
	backoff pace.Backoff
	cancel  context.CancelFunc
}

func newPager(s *session) *pager {
	return &pager{s: s, answers: make(chan page, 2), cancel: func() {}}
}

// fetch requests a page. The answer to the previous request must have been taken from answers.
func (p *pager) fetch(ctx context.Context, token string) {
	p.token, p.one = token, ""
	p.ask(ctx)
}

// fetchOne requests one object. The answer to the previous request must have been taken from answers.
func (p *pager) fetchOne(ctx context.Context, key string) {
	p.one = key
	p.ask(ctx)
}

// ask starts the request for the page or object on a goroutine.
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
	within := pace.RequestTimeout
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

// count counts the request in the Status.
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

// limits returns the limit of pages by metadata, or of pages of whole objects, whichever are requested.
func (p *pager) limits() *pace.Limit {
	if p.metadata {
		return &p.s.lists.metadataLimit
	}
	return &p.s.lists.limit
}

// smallest reports whether the request cannot be made for fewer objects.
func (p *pager) smallest() bool { return p.one != "" || p.limit <= p.limits().Least }

// whole makes the next pages consist of whole objects. If the smallest pages are cut off (lists.byName), the next pages
// list names instead.
func (p *pager) whole() {
	_, possible := p.s.metadataLister()
	p.named = p.s.lists.byName && possible
	p.metadata, p.slow = p.named, false
}

// tooLarge reports whether the page of whole objects that has failed is to be fetched object by object.
func (p *pager) tooLarge() bool {
	_, possible := p.s.metadataLister()
	return p.s.lists.byName && !p.metadata && p.one == "" && possible
}

// request sends the list request and waits for the answer. While the request is overdue, it also sends a page with
// overdue set.
func (p *pager) request(ctx context.Context, lw request.Requests, within time.Duration, o metav1.ListOptions) page {
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
		items: items, rv: m.GetResourceVersion(), token: m.GetContinue(), begun: at, meanSize: pace.MeanSize(items),
		took: took,
	}
}

// learn sets the limit of the next page from the result of this one. A refused request does not change it.
func (p *pager) learn(ctx context.Context, got page) {
	if p.smallest() {
		p.learnSmallest(got)
	}
	switch {
	case p.one != "" || p.named:
		p.slow = p.slow || got.took >= pace.PromptPage
	case p.limit == 0:
		p.s.lists.unpaged = got.err == nil || !request.Cut(got.err) // after a cut answer the next list has pages
	case got.err == nil:
		p.limits().Arrived(p.limit, len(got.items), got.meanSize, got.took)
	case request.Cut(got.err):
		p.limits().Cut(p.limit, got.took)
		klog.FromContext(ctx).V(2).Info("A page was too large for the link or its time", "limit", p.limit, "next",
			p.limits().Next)
	}
}

// learnSmallest sets byName if the smallest page was cut off twice in a row. Once is not enough, since a broken
// connection looks the same.
func (p *pager) learnSmallest(got page) {
	if !p.s.lists.patience.Learn(got.took, got.err) {
		p.s.lists.cutPages = 0
		return
	}
	if p.metadata || p.one != "" {
		return // only pages of whole objects count
	}
	if p.s.lists.cutPages++; p.s.lists.cutPages == 2 {
		p.s.lists.cutPages, p.s.lists.byName = 0, true
	}
}

// retryLater starts the back-off before the same page is requested again, and releases the slot to list.
func (p *pager) retryLater(err error) {
	p.err = err
	p.retry = p.s.o.Clock.NewTimer(p.backoff.Next(request.RetryAfter(err)))
	p.s.conn.listing.release()
}

// retryC returns the channel that fires when the retry is due; nil if none is.
func (p *pager) retryC() <-chan time.Time {
	if p.retry == nil {
		return nil
	}
	return p.retry.C()
}

// again repeats the last request.
func (p *pager) again(ctx context.Context) {
	p.retry = nil
	p.ask(ctx)
}

// close cancels the request and waits for its goroutine.
func (p *pager) close() {
	p.cancel()
	for p.fetching {
		p.fetching = (<-p.answers).overdue != nil
	}
	if p.retry != nil {
		p.retry.Stop()
	}
}
