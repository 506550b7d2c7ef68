package informer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

const pagesOfList, perPage = 5, 10

// press observes which pages of a list are in memory. It intercepts the list requests, and its index function sees each
// object that the store writes. It delays the writing of each page until the next page has arrived.
type press struct {
	t     *testing.T
	inner *cache.ListWatch

	mu       sync.Mutex      // mu guards the fields below
	asked    int             // asked is the number of pages requested in the current list
	answered []chan struct{} // answered has one channel per page, closed when the page has arrived
	written  map[string]bool // written has the names of the pods that the store has written
	alive    int             // alive is the maximum number of pages in memory at a time
	overlaps int             // overlaps counts the pages that arrived while the previous page was written
}

func newPress(t *testing.T, inner *cache.ListWatch) *press {
	p := &press{t: t, inner: inner}
	p.begin()
	return p
}

func (p *press) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.alive, p.overlaps, p.written = 0, 0, 0, map[string]bool{}
	p.answered = make([]chan struct{}, pagesOfList)
	for i := range p.answered {
		p.answered[i] = make(chan struct{})
	}
}

func (p *press) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Limit == 1 {
		return p.inner.ListWithContext(ctx, o)
	}
	p.mu.Lock()
	n := p.asked
	p.asked++
	// The pages in memory are this page, and earlier pages that are not completely written.
	p.alive = max(p.alive, n-len(p.written)/perPage+1)
	done := p.answered[n]
	p.mu.Unlock()
	l, err := p.inner.ListWithContext(ctx, o)
	close(done)
	return l, err
}

func (p *press) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return p.inner.WatchWithContext(ctx, o)
}

func (p *press) List(o metav1.ListOptions) (runtime.Object, error) {
	return p.ListWithContext(p.t.Context(), o)
}

func (p *press) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return p.WatchWithContext(p.t.Context(), o)
}

// index is the informer's index function. It runs while the store writes an object.
func (p *press) index(obj any) ([]string, error) {
	name := obj.(*corev1.Pod).Name
	n, err := strconv.Atoi(strings.TrimPrefix(name, "p"))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	answered, page := p.answered, n/perPage
	known := p.written[name]
	p.mu.Unlock()
	if !known && n%perPage == 0 && page+1 < pagesOfList {
		p.awaitPage(answered, page+1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[name] = true
	return []string{name}, nil
}

// awaitPage waits for the page. Then it gives the informer time to request one more page, which the informer must not
// do.
func (p *press) awaitPage(answered []chan struct{}, page int) {
	select {
	case <-answered[page]:
		p.mu.Lock()
		p.overlaps++
		p.mu.Unlock()
	case <-time.After(20 * time.Second):
		p.t.Errorf("page %d was not fetched while page %d was being written", page+1, page)
		return
	}
	if page+1 < len(answered) {
		select {
		case <-answered[page+1]:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *press) want() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != pagesOfList || len(p.written) != pagesOfList*perPage || p.overlaps != pagesOfList-1 {
		p.t.Errorf("%d pages, %d objects written, %d pages came while the last was written", p.asked, len(p.written),
			p.overlaps)
	}
	if p.alive != 2 {
		p.t.Errorf("%d pages were held at a time, want the one that is written and the one on its way", p.alive)
	}
}

// TestPagesHeld checks that a page of a list is fetched while the previous page is written, and that no third page is
// in memory.
func TestPagesHeld(t *testing.T) {
	for _, memory := range []bool{false, true} {
		t.Run(fmt.Sprintf("in memory %v", memory), func(t *testing.T) {
			api := fakeapi.New(fakeapi.Options{})
			if err := api.Start(); err != nil {
				t.Fatal(err)
			}
			defer api.Stop()
			client, err := kubernetes.NewForConfig(api.Config())
			if err != nil {
				t.Fatal(err)
			}
			pod := func(n int, value string) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%02d", n),
					Labels: map[string]string{"value": value}}}
			}
			for n := range pagesOfList * perPage {
				must(t)(api.Create(podsResource, pod(n, "old")))
			}
			p := newPress(t, requests.ListWatch(client.CoreV1().RESTClient(), podsIdentity).ListWatch)
			st, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{Logger: &discard})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			i, err := informer.New(p, &corev1.Pod{}, informer.Options{
				Store: st, InMemory: memory, Identity: podsIdentity, PageSize: perPage, Logger: &discard,
				Indexers:  cache.Indexers{"name": p.index},
				Residency: testresidency.Of(t),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { i.RunWithContext(ctx) })
			defer wg.Wait()
			defer cancel()
			within(t, func() bool { return i.HasSynced() })
			p.want()

			p.begin()
			api.Stop()
			for n := range pagesOfList * perPage {
				must(t)(api.Update(podsResource, pod(n, "new")))
			}
			api.Compact()
			if err := api.Start(); err != nil {
				t.Fatal(err)
			}
			within(t, func() bool {
				s := i.Status()
				return s.Reflector.Relists[reflector.ReasonExpired] == 1 && s.Source == informer.Live
			})
			p.want()
		})
	}
}

func within(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("it did not come about")
		}
	}
}
