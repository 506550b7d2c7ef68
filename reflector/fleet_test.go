package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

var errNoListener = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// fleet is the set of reflectors of one process, each on its own resource, with one shared Options.Limiter.
type fleet struct {
	t       *testing.T
	l       *limiter.Limiter
	members []*member
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	away     atomic.Bool
	requests atomic.Int32
	// connecting and listing count the reflectors that connect and that list, and the maximum of these counts.
	connecting, listing gauge
}

type gauge struct{ now, most atomic.Int32 }

func (g *gauge) up() {
	for n := g.now.Add(1); n > g.most.Load(); {
		g.most.Store(n)
	}
}

func (g *gauge) down() { g.now.Add(-1) }

// member is one reflector of a fleet, with its ListerWatcher and its Sink.
type member struct {
	*server
	*memory
	g        *fleet
	r        *reflector.Reflector
	answerMu sync.Mutex
	// answer, if set, answers every request. answerMu guards answer while the reflector runs.
	answer  func(ctx context.Context) error
	before  func(o metav1.ListOptions)
	onPage  func(ctx context.Context)
	listing bool
}

func (m *member) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	m.g.requests.Add(1)
	if o.Limit == 1 {
		m.g.connecting.up()
		defer m.g.connecting.down()
	}
	if m.before != nil {
		m.before(o)
	}
	if err := m.ask(ctx); err != nil {
		return nil, err
	}
	return m.server.ListWithContext(ctx, o)
}

func (m *member) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	m.g.requests.Add(1)
	if err := m.ask(ctx); err != nil {
		return nil, err
	}
	return m.server.WatchWithContext(ctx, o)
}

func (m *member) ask(ctx context.Context) error {
	time.Sleep(10 * time.Millisecond)
	m.answerMu.Lock()
	answer := m.answer
	m.answerMu.Unlock()
	switch {
	case answer != nil:
		return answer(ctx)
	case m.g.away.Load():
		return errNoListener
	}
	return nil
}

func (m *member) answers(answer func(ctx context.Context) error) {
	m.answerMu.Lock()
	defer m.answerMu.Unlock()
	m.answer = answer
}

func (m *member) BeginReplace(ctx context.Context, reason reflector.Reason) error {
	m.g.listing.up()
	m.listing = true
	return m.memory.BeginReplace(ctx, reason)
}

func (m *member) Page(ctx context.Context, items []runtime.Object) error {
	if m.onPage != nil {
		m.onPage(ctx)
	}
	return m.memory.Page(ctx, items)
}

func (m *member) EndReplace(ctx context.Context, rv string) error {
	m.endList()
	return m.memory.EndReplace(ctx, rv)
}

func (m *member) AbortReplace(ctx context.Context) error {
	m.endList()
	return m.memory.AbortReplace(ctx)
}

func (m *member) endList() {
	if m.listing {
		m.listing = false
		m.g.listing.down()
	}
}

// newFleet runs n reflectors on three objects each. It calls change with each member before its reflector starts.
func newFleet(t *testing.T, n int, change func(i int, m *member)) *fleet {
	g := &fleet{t: t, l: limiter.New()}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(t.Context())
	for i := range n {
		m := &member{server: newServer(), memory: newMemory(), g: g}
		for k := range 3 {
			m.put(fmt.Sprintf("a/%d", k), "1")
		}
		if change != nil {
			change(i, m)
		}
		m.r = reflector.New(m, m, reflector.Options{Limiter: g.l, PageSize: 2})
		g.members = append(g.members, m)
		g.wg.Go(func() {
			if err := m.r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return g
}

func (g *fleet) end() {
	g.cancel()
	g.wg.Wait()
	for _, m := range g.members {
		if broken := m.complaints(); len(broken) > 0 {
			g.t.Errorf("the sink's contract was broken: %v", broken)
		}
	}
}

func (g *fleet) live() (n int) {
	for _, m := range g.members {
		if m.r.Status().State == reflector.Watch && m.r.Status().Err == nil && m.equal(m.server) {
			n++
		}
	}
	return n
}

// TestManyComeBack checks that in an outage of ten minutes all reflectors of a process make as many requests as one. No
// reflector lists, and all are live soon after the outage.
func TestManyComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFleet(t, 100, nil)
		time.Sleep(time.Minute)
		if g.live() != 100 || g.listing.most.Load() > 2 {
			t.Fatalf("%d of 100 are live, and %d listed at a time", g.live(), g.listing.most.Load())
		}
		g.away.Store(true)
		for _, m := range g.members {
			m.put("a/new", "1")
			m.cut(nil)
		}
		g.requests.Store(0)
		time.Sleep(10 * time.Minute)
		// Eight requests may have been in progress when the link was found to be down. After that, a request is sent
		// every 15 s on average.
		if n := g.requests.Load(); n < 15 || n > 100 {
			t.Errorf("%d requests in ten minutes", n)
		}
		for _, m := range g.members {
			if err := m.r.Status().Err; !errors.Is(err, errNoListener) {
				t.Errorf("the status of one that has not tried for long says %v", err)
			}
		}
		g.away.Store(false)
		time.Sleep(35 * time.Second)
		if n := g.live(); n != 100 || g.connecting.most.Load() > 8 {
			t.Errorf("%d of 100 are live, and %d connected at a time", n, g.connecting.most.Load())
		}
		for _, m := range g.members {
			if st := m.r.Status(); len(st.Relists) != 0 {
				t.Errorf("relists: %v", st.Relists)
			}
		}
		g.end()
	})
}

// TestManyRelist checks that after the server has lost its history only two reflectors list at a time.
func TestManyRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFleet(t, 50, func(_ int, m *member) { m.onPage = func(context.Context) { time.Sleep(time.Second) } })
		time.Sleep(5 * time.Minute)
		for _, m := range g.members {
			m.put("a/new", "1")
			m.compact()
			m.cut(apierrors.NewResourceExpired("too old"))
		}
		time.Sleep(5 * time.Minute)
		if n := g.live(); n != 50 || g.listing.most.Load() != 2 {
			t.Errorf("%d of 50 are live, and %d listed at a time", n, g.listing.most.Load())
		}
		for _, m := range g.members {
			if n := m.r.Status().Relists[reflector.ReasonExpired]; n != 1 {
				t.Errorf("%d relists", n)
			}
		}
		g.end()
	})
}

// TestSomeHangForEver checks that resources whose requests never return do not block other resources for ever.
func TestSomeHangForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFleet(t, 52, func(i int, m *member) {
			if i < 2 {
				m.answer = func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				}
			}
		})
		time.Sleep(10 * time.Minute)
		if n := g.live(); n != 50 {
			t.Errorf("%d of 50 are live", n)
		}
		g.away.Store(true)
		for _, m := range g.members {
			m.cut(nil)
		}
		time.Sleep(10 * time.Minute)
		g.away.Store(false)
		time.Sleep(5 * time.Minute)
		if n := g.live(); n != 50 {
			t.Errorf("%d of 50 are live after an outage", n)
		}
		g.end()
	})
}

// TestOneIsRefused checks that an error that the server answers for one resource does not delay other resources, and
// that their answers do not shorten the back-off of that resource.
func TestOneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int32
		g := newFleet(t, 20, func(i int, m *member) {
			if i == 0 {
				m.answer = func(context.Context) error {
					refused.Add(1)
					return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
				}
			}
		})
		time.Sleep(30 * time.Second)
		if n := g.live(); n != 19 {
			t.Errorf("%d of 19 are live", n)
		}
		time.Sleep(10 * time.Minute)
		if n := refused.Load(); n < 20 || n > 60 {
			t.Errorf("%d attempts at what is forbidden", n)
		}
		g.end()
	})
}

// TestOneIsRefusedAConnection checks that other resources' answers do not shorten a failing resource's back-off.
func TestOneIsRefusedAConnection(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		t.Run(every.String(), func(t *testing.T) { oneIsRefusedAConnection(t, every) })
	}
}

func oneIsRefusedAConnection(t *testing.T, every time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int32
		g := newFleet(t, 20, func(i int, m *member) {
			if i == 0 {
				m.answer = func(context.Context) error {
					refused.Add(1)
					return errNoListener
				}
			}
		})
		for range 10 * time.Minute / every {
			time.Sleep(every)
			g.members[1].put("a/busy", time.Now().String())
		}
		synctest.Wait()
		if n := g.live(); n != 19 {
			t.Errorf("%d of 19 are live", n)
		}
		if n := refused.Load(); n < 20 || n > 80 {
			t.Errorf("%d attempts at what does not answer", n)
		}
		g.end()
	})
}
