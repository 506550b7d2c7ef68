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

// page is the answer to one list request.
type page struct {
	items []runtime.Object
	rv    string
	token string // of the next page; empty at the end
	err   error
	// meanSize is that of the items, and took how long the request did, also a failed one; for the limit of the next.
	meanSize int64
	took     time.Duration
	// overdue is set if this is no answer: none has come in time, and it is still waited for.
	overdue error
}

// pager fetches one page at a time on a goroutine of its own, and owns it.
type pager struct {
	s *session
	// token of the page that is asked for, and its limit.
	token string
	limit int64
	// metadata: pages come by metadata (see takeRefs). Of the last one, lacking are the objects that are to be fetched,
	// and after is the token of the page that follows. one is the key of the object that is asked for; empty for a page.
	metadata bool
	lacking  []entry.ObjectRef
	after    string
	one      string
	// answers holds the page once it is there, and that it is overdue before; fetching until it has been taken.
	answers  chan page
	fetching bool
	// done: the last page has been taken.
	done bool
	// retry is set while a failed page waits for another try.
	retry clock.Timer
	// err is why it failed.
	err     error
	backoff pace.Backoff
	cancel  context.CancelFunc
}

func newPager(s *session) *pager {
	return &pager{s: s, answers: make(chan page, 2), cancel: func() {}}
}

// fetch asks for a page. The previous one must have been taken.
func (p *pager) fetch(ctx context.Context, token string) {
	p.token, p.one = token, ""
	p.ask(ctx)
}

// fetchOne asks for an object. The previous answer must have been taken.
func (p *pager) fetchOne(ctx context.Context, key string) {
	p.one = key
	p.ask(ctx)
}

// ask makes the request.
func (p *pager) ask(ctx context.Context) {
	p.cancel()
	ctx, p.cancel = context.WithCancel(ctx)
	p.fetching = true
	o := metav1.ListOptions{Limit: p.limits().Next, Continue: p.token}
	if p.one != "" {
		o = metav1.ListOptions{Limit: 1, FieldSelector: keySelector(p.one)}
	}
	p.limit = o.Limit
	within := pace.RequestTimeout
	if p.smallest() {
		within = p.s.patience.Time()
	}
	lw := p.s.lw
	if p.one == "" && p.metadata {
		lw, _ = p.s.metadataLister()
	}
	go func() {
		if err := p.s.listing.take(ctx); err != nil {
			p.answers <- page{err: err}
			return
		}
		p.count(o)
		p.answers <- p.request(ctx, lw, within, o)
	}()
}

// count counts the request.
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

// limits are those of the pages that are asked for.
func (p *pager) limits() *pace.Limit {
	if p.metadata {
		return &p.s.metadataLimit
	}
	return &p.s.limit
}

// smallest reports that no less can be asked for than what is asked for.
func (p *pager) smallest() bool { return p.one != "" || p.limit <= p.limits().Least }

// request makes the request.
func (p *pager) request(ctx context.Context, lw request.Requests, within time.Duration, o metav1.ListOptions) page {
	begun := time.Now()
	list, m, err := lw.List(ctx, within, o, func(err error) {
		p.answers <- page{overdue: p.s.describe("list", err)}
	})
	took := time.Since(begun)
	if err != nil {
		return page{err: p.s.describe("list", err), took: took}
	}
	// Not a slice of the list: one object that is kept would keep the whole page.
	items, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return page{err: p.s.describe("read the list of", err)}
	}
	return page{
		items: items, rv: m.GetResourceVersion(), token: m.GetContinue(), meanSize: pace.MeanSize(items), took: took,
	}
}

// learn sets the limit of the next page by how this one came. A refusal says nothing about it.
func (p *pager) learn(ctx context.Context, got page) {
	if p.smallest() {
		p.learnSmallest(got)
	}
	switch {
	case p.one != "":
	case got.err == nil:
		p.limits().Came(p.limit, len(got.items), got.meanSize, got.took)
	case request.Cut(got.err):
		p.limits().Cut(p.limit, got.took)
		klog.FromContext(ctx).V(2).Info("A page was too large for the link or its time", "limit", p.limit, "next",
			p.limits().Next)
	}
}

// learnSmallest has the list come as a watch if no page can come: a watch is what servers do not cut. A connection that
// broke by itself looks the same, so it has to have happened twice in a row.
func (p *pager) learnSmallest(got page) {
	if !p.s.patience.Learn(got.took, got.err) {
		p.s.hopeless = 0
		return
	}
	if p.s.hopeless++; p.s.hopeless == 2 {
		p.s.hopeless, p.s.unlimited = 0, p.s.watchLists
	}
}

// retryLater starts the wait before the same page is asked for again.
func (p *pager) retryLater(err error) {
	p.err = err
	p.retry = p.s.o.Clock.NewTimer(p.backoff.Next(request.RetryAfter(err)))
	p.s.listing.give() // nothing is held meanwhile
}

// retryC fires when the wait is over.
func (p *pager) retryC() <-chan time.Time {
	if p.retry == nil {
		return nil
	}
	return p.retry.C()
}

// again asks for the same.
func (p *pager) again(ctx context.Context) {
	p.retry = nil
	p.ask(ctx)
}

// close gives up what is under way and waits for it.
func (p *pager) close() {
	p.cancel()
	for p.fetching {
		p.fetching = (<-p.answers).overdue != nil
	}
	if p.retry != nil {
		p.retry.Stop()
	}
}
