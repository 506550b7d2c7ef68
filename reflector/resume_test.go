package reflector_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/reflector"
)

type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// rig is a reflector on a scripted server and a Sink in memory, in a synctest bubble.
type rig struct {
	t    tb
	s    *server
	m    *memory
	r    *reflector.Reflector
	errs []error
	// live has the arguments of the calls of OnLive.
	live   []bool
	cancel context.CancelFunc
	done   chan error
	// lwHangs is true if every page request but the first hangs until its context ends.
	lwHangs bool
}

type hanging struct{ *server }

func (h hanging) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue != "" {
		h.log(request{ListOptions: o})
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.server.ListWithContext(ctx, o)
}

// start runs a new reflector. After a call of stop it acts as a restart on the same Sink.
func (g *rig) start(o reflector.Options) {
	g.t.Helper()
	onError := o.OnError
	o.OnError = func(ctx context.Context, err error) {
		g.errs = append(g.errs, err)
		if onError != nil {
			onError(ctx, err)
		}
	}
	g.live, o.OnLive = nil, g.noteLive
	g.r = reflector.New(g.s, g.m, o)
	if g.lwHangs {
		g.r = reflector.New(hanging{g.s}, g.m, o)
	}
	g.m.contradicted = g.r.Contradicted
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(context.Background())
	g.done = make(chan error, 1)
	go func() { g.done <- g.r.Run(ctx) }()
	synctest.Wait()
}

// noteLive is Options.OnLive: it checks that the Status has the same value, and no error while live is true.
func (g *rig) noteLive(live bool) {
	if st := g.r.Status(); st.Live != live || live &&
		(st.Err != nil || st.State == reflector.Backoff || st.State == reflector.Degraded || st.State == reflector.Stopped) {
		g.t.Errorf("OnLive(%t), status %+v", live, st)
	}
	if n := len(g.live); live != (n == 0 || !g.live[n-1]) {
		g.t.Errorf("OnLive(%t) after %v", live, g.live)
	}
	g.live = append(g.live, live)
}

// stop ends the run and checks the invariants of every run.
func (g *rig) stop() {
	g.t.Helper()
	g.barrier()
	g.cancel()
	if err := <-g.done; err != nil {
		g.t.Errorf("Run: %v", err)
	}
	if b := g.m.complaints(); len(b) > 0 {
		g.t.Errorf("the sink's contract was broken: %v", b)
	}
	if n := len(g.live); n > 0 && g.live[n-1] {
		g.t.Errorf("OnLive received %v, and nothing of the end", g.live)
	}
	g.countersAgree()
}

func (g *rig) countersAgree() {
	g.t.Helper()
	st := g.r.Status()
	lists, probes, watches := g.s.counts()
	if st.Pages != lists || st.Probes != probes || st.Watches != watches {
		g.t.Errorf("Status counts %d pages, %d probes, %d watches; the server %d, %d, %d", st.Pages, st.Probes, st.Watches,
			lists, probes, watches)
	}
}

func (g *rig) restart(change func(), o reflector.Options) {
	g.t.Helper()
	g.stop()
	g.m.forget()
	g.s.mu.Lock()
	g.s.requests = nil
	g.s.mu.Unlock()
	g.errs = nil
	change()
	g.start(o)
}

func (g *rig) sleep(d time.Duration) {
	g.barrier()
	time.Sleep(d)
	synctest.Wait()
	g.barrier()
}

// barrier locks and unlocks the mutex that every request locks first. So the race detector sees the order of memory
// accesses that the fake time enforces.
func (g *rig) barrier() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
}

func (g *rig) converged() {
	g.t.Helper()
	if !g.m.equal(g.s) {
		g.t.Errorf("the sink holds %v, the server has %v", g.m.state(), g.s.state())
	}
}

func (g *rig) wantLog(want ...string) {
	g.t.Helper()
	if got := g.m.lines(); !slices.Equal(got, want) {
		g.t.Errorf("the calls of the sink were\n%q\nwant\n%q", got, want)
	}
}

func bubble(t *testing.T, f func(g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&rig{t: t, s: newServer(), m: newMemory()})
	})
}

func TestColdStart(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.put("a/y", "1")
		g.start(reflector.Options{})
		g.wantLog("BEGIN Cold", "PAGE 2", "END 102", "SYNCED")
		g.s.put("a/x", "2")
		g.s.remove("a/y")
		synctest.Wait()
		g.converged()
		if st := g.r.Status(); st.Lists != 1 || st.Probes != 0 || st.Watches != 1 || st.Resumes != 0 ||
			len(st.Relists) != 0 || st.ResourceVersion != "104" || st.State != reflector.Watch {
			t.Errorf("status %+v", st)
		}
		g.stop()
		if st := g.r.Status(); st.State != reflector.Stopped {
			t.Errorf("state %s after Run", st.State)
		}
	})
}

func TestResumeNothingChanged(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {}, reflector.Options{})
		g.wantLog("SYNCED")
		// A resume costs one probe, one look-up and one watch at the stored resourceVersion, and no list.
		st := g.r.Status()
		if st.Lists != 0 || st.Probes != 2 || st.Lookups != 1 || st.Watches != 1 || st.Resumes != 1 {
			t.Errorf("status %+v", st)
		}
		if r := g.s.seen(); r[1].ResourceVersion != "101" || *r[1].TimeoutSeconds < 300 || *r[1].TimeoutSeconds >= 600 ||
			!r[1].AllowWatchBookmarks {
			t.Errorf("watched with %s", asJSON(r[1]))
		}
		g.stop()
	})
}

func TestResumeDrains(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.put("a/y", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.put("a/x", "2")
			g.s.remove("a/y")
			g.s.put("a/z", "1")
		}, reflector.Options{})
		g.wantLog("MODIFIED a/x 103", "DELETED a/y 104", "ADDED a/z 105", "SYNCED")
		if r := g.s.seen(); *r[1].TimeoutSeconds != 3 {
			t.Errorf("the first watch was asked for with %s", asJSON(r[1]))
		}
		g.sleep(4 * time.Second)
		g.converged()
		st := g.r.Status()
		if st.Lists != 0 || st.Watches != 2 || st.Resumes != 2 || st.State != reflector.Watch || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		if g.m.syncs() != 1 || len(g.errs) != 0 {
			t.Errorf("%d syncs, errors %v", g.m.syncs(), g.errs)
		}
		g.stop()
	})
}
