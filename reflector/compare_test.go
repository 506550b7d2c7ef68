package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

var gr = schema.GroupResource{Resource: "configmaps"}

// compared returns options whose Compare compares the Sink with the server. look and change may be nil: look is called
// before each comparison, and change may modify the result.
func (g *rig) compared(look func() error, change func(c *reflector.Comparison) error) reflector.Options {
	return reflector.Options{Compare: func(ctx context.Context) (c reflector.Comparison, err error) {
		g.barrier()
		if look != nil {
			err = look()
		}
		if err != nil {
			return c, err
		}
		c = g.comparison()
		if change != nil {
			err = change(&c)
		}
		return c, errors.Join(err, ctx.Err())
	}}
}

func (g *rig) comparison() reflector.Comparison {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	ref := func(key string, o *corev1.ConfigMap) entry.ObjectRef {
		if o == nil {
			return entry.ObjectRef{}
		}
		return entry.ObjectRef{Key: key, UID: string(o.UID), ResourceVersion: o.ResourceVersion}
	}
	c := reflector.Comparison{ResourceVersion: strconv.Itoa(g.s.rv)}
	keys := map[string]bool{}
	listed := map[string]*corev1.ConfigMap{}
	for key, o := range g.s.objects {
		if g.s.view == nil || g.s.viewed(o) {
			listed[key], keys[key] = o, true
		}
	}
	for key := range g.m.objects {
		keys[key] = true
	}
	for key := range keys {
		if d := (reflector.Difference{Held: ref(key, g.m.objects[key]), Listed: ref(key, listed[key])}); d.Held != d.Listed {
			c.Differences = append(c.Differences, d)
		}
	}
	return c
}

// TestCompare checks that a start makes only one watch and one call of Options.Compare. Synced is called once the watch
// has delivered the awaited events, without a bookmark or any other request.
func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *rig)
		log    []string
	}{
		"nothing":      {func(*rig) {}, []string{"SYNCED"}},
		"others":       {func(g *rig) { g.s.other(7) }, []string{"SYNCED"}},
		"an update":    {func(g *rig) { g.s.put("a/x", "2"); g.s.other(7) }, []string{"MODIFIED a/x 103", "SYNCED"}},
		"a new object": {func(g *rig) { g.s.put("a/z", "1"); g.s.other(7) }, []string{"ADDED a/z 103", "SYNCED"}},
		"a delete":     {func(g *rig) { g.s.remove("a/x"); g.s.other(7) }, []string{"DELETED a/x 103", "SYNCED"}},
		"two of one object": {func(g *rig) { g.s.put("a/x", "2"); g.s.put("a/x", "3") },
			[]string{"MODIFIED a/x 103", "MODIFIED a/x 104", "SYNCED"}},
		"an object that went": {func(g *rig) { g.s.put("a/z", "1"); g.s.remove("a/z"); g.s.put("a/x", "2") },
			[]string{"ADDED a/z 103", "DELETED a/z 104", "MODIFIED a/x 105", "SYNCED"}},
		"another under the name": {func(g *rig) { g.s.remove("a/x"); g.s.put("a/x", "2") },
			[]string{"DELETED a/x 103", "ADDED a/x 104", "SYNCED"}},
		"changed and deleted": {func(g *rig) { g.s.put("a/x", "2"); g.s.remove("a/x") },
			[]string{"MODIFIED a/x 103", "DELETED a/x 104", "SYNCED"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.s.put("a/y", "1")
				g.start(reflector.Options{})
				g.restart(func() { c.change(g) }, g.compared(nil, nil))
				g.wantLog(c.log...)
				if st := g.r.Status(); st.State != reflector.Watch || !st.Live || st.Comparisons != 1 || st.Probes != 0 ||
					st.Watches != 1 || st.Resumes != 1 || st.Lists != 0 {
					t.Errorf("status %+v", st)
				}
				g.converged()
				g.stop()
			})
		})
	}
}

// TestCompareAfterTheWatch: an answer from before the watch was accepted may come from another server.
func TestCompareAfterTheWatch(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		refusals, refused := 3, 0
		g.restart(func() {
			g.s.other(7)
			g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
				if refused < refusals {
					refused++
					return nil, io.EOF
				}
				return nil, nil
			}
		}, g.compared(func() error {
			if refused < refusals {
				t.Errorf("compared when the watch had been refused %d times", refused)
			}
			return nil
		}, nil))
		g.sleep(time.Minute)
		if st := g.r.Status(); st.Comparisons != 1 || g.m.syncs() != 1 || st.Lookups != 0 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestCompareAfterACut checks that a connect after a lost connection makes a watch and a call of Options.Compare. After
// a watch that ended at its time-out it makes a watch, a probe and one look-up.
func TestCompareAfterACut(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(g.compared(nil, nil))
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.s.put("a/x", "2")
		g.s.remove("a/x")
		g.sleep(time.Second)
		g.converged()
		if st := g.r.Status(); st.Comparisons != 1 || st.Probes != 0 || st.Watches != 2 || !st.Live {
			t.Errorf("status %+v", st)
		}
		g.s.put("a/x", "3")
		g.sleep(11 * time.Minute)
		if st := g.r.Status(); st.Comparisons != 1 || st.Lookups == 0 || st.Lookups != st.Watches-2 {
			t.Errorf("after a time-out: status %+v", st)
		}
		g.stop()
	})
}

func TestEventsWaitForTheComparison(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		compared := make(chan struct{})
		g.restart(func() { g.s.put("a/x", "2") }, g.compared(func() error { <-compared; return nil }, nil))
		g.sleep(time.Second)
		g.wantLog()
		close(compared)
		g.sleep(0)
		g.wantLog("MODIFIED a/x 102", "SYNCED")
		g.stop()
	})
}

// TestAwaitedEventDoesNotCome checks that the server counts as restored from a backup if the watch passes the
// resourceVersion of a difference that Options.Compare has found, without an event for it.
func TestAwaitedEventDoesNotCome(t *testing.T) {
	for name, change := range map[string]func(s *server){
		"an update": func(s *server) { s.put("a/x", "2") },
		"a delete":  func(s *server) { s.remove("a/x") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.s.put("a/y", "1")
				g.start(reflector.Options{})
				g.restart(func() { g.s.silently(func() { change(g.s) }); g.s.other(5) }, g.compared(nil, nil))
				g.sleep(5 * time.Second)
				if g.m.syncs() != 0 {
					t.Error("synced without the event")
				}
				g.sleep(time.Minute)
				g.wantRelist(reflector.ReasonRewound)
				g.converged()
				g.stop()
			})
		})
	}
}

func (s *server) silently(change func()) {
	s.mu.Lock()
	history, ledger := s.history, s.ledger
	s.mu.Unlock()
	change()
	s.mu.Lock()
	s.history, s.ledger = history, ledger
	s.mu.Unlock()
}

// TestEventBehindTheComparison checks an event that is newer than the comparison and precedes an awaited event. It is
// not delivered, because it shows that the server was restored from a backup.
func TestEventBehindTheComparison(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.silently(func() { g.s.put("a/x", "2") }) }, g.compared(nil, nil))
		g.s.put("a/z", "1")
		g.sleep(0)
		if log := g.m.lines(); len(log) == 0 || log[0] != "MUSTLIST Rewound" {
			t.Errorf("sink calls %q", log)
		}
		g.sleep(time.Minute)
		g.wantRelist(reflector.ReasonRewound)
		g.converged()
		g.stop()
	})
}

// TestComparisonContradicts checks that a difference at an already delivered resourceVersion shows a restored server.
func TestComparisonContradicts(t *testing.T) {
	for name, d := range map[string]reflector.Difference{
		"another state": {Held: entry.ObjectRef{Key: "a/x", UID: "uid-1", ResourceVersion: "101"},
			Listed: entry.ObjectRef{Key: "a/x", UID: "uid-1", ResourceVersion: "100"}},
		"another object": {Held: entry.ObjectRef{Key: "a/x", UID: "uid-1", ResourceVersion: "101"},
			Listed: entry.ObjectRef{Key: "a/x", UID: "uid-9", ResourceVersion: "102"}},
		"an object that is not held": {Listed: entry.ObjectRef{Key: "a/z", UID: "uid-9", ResourceVersion: "102"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.s.put("a/y", "1")
				g.start(reflector.Options{})
				g.restart(func() { g.s.other(5) }, g.compared(nil, func(c *reflector.Comparison) error {
					c.Differences = []reflector.Difference{d}
					return nil
				}))
				g.wantRelist(reflector.ReasonRewound)
				g.stop()
			})
		})
	}
}

func TestComparisonDoesNotPay(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		var calls []bool
		o := g.compared(nil, nil)
		o.ComparisonPays = func(_ context.Context, starts bool) bool { calls = append(calls, starts); return starts }
		g.restart(func() { g.s.other(5) }, o)
		g.wantLog("SYNCED")
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(10 * time.Second)
		if st := g.r.Status(); st.Comparisons != 1 || st.Lookups == 0 || len(calls) < 2 || !calls[0] || calls[1] {
			t.Errorf("calls %v; status %+v", calls, st)
		}
		g.stop()
	})
}

func TestFailedComparison(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		failures := 2
		g.restart(func() { g.s.put("a/y", "1") }, g.compared(func() error {
			if failures--; failures >= 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}, nil))
		g.sleep(10 * time.Second)
		g.converged()
		if st := g.r.Status(); st.Comparisons != 3 || st.Watches != 3 || st.Lookups != 0 || len(g.errs) != 2 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

// TestCompareWithLeftOut checks that objects of Checkpoint.LeftOut are fetched after the awaited events.
func TestCompareWithLeftOut(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.m.cp = leftOut("a/x")
			g.s.put("a/y", "1")
		}, g.compared(nil, nil))
		g.wantLog("ADDED a/y 102", "MODIFIED a/x ", "SYNCED")
		if st := g.r.Status(); st.Comparisons != 1 || st.Lookups != 1 || st.Watches != 1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestIncomparable checks that the reflector probes the server, looks up single objects and waits for a bookmark if
// Options.Compare fails with ErrIncomparable or is refused.
func TestIncomparable(t *testing.T) {
	fails := func(err error) func(*reflector.Comparison) error {
		return func(*reflector.Comparison) error { return err }
	}
	for name, change := range map[string]func(c *reflector.Comparison) error{
		"it says so": fails(fmt.Errorf("too many: %w", reflector.ErrIncomparable)),
		"metadata are refused": fails(
			apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "list", gr, "", "", 0, true)),
		"no permission to list": fails(apierrors.NewForbidden(gr, "", errors.New("from the test"))),
		"not comparable":        func(c *reflector.Comparison) error { c.ResourceVersion = "x"; return nil },
		"too late":              func(*reflector.Comparison) error { time.Sleep(requestTimeout + time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				g.restart(func() { g.s.put("a/y", "1"); g.s.other(6) }, g.compared(nil, change))
				if g.m.syncs() != 0 {
					t.Error("synced before the drain")
				}
				g.sleep(requestTimeout + 5*time.Second)
				g.converged()
				if st := g.r.Status(); g.m.syncs() != 1 || st.Lookups == 0 || st.Probes == 0 || len(st.Relists) != 0 ||
					st.Comparisons != 1 {
					t.Errorf("status %+v", st)
				}
				g.s.cut(apierrors.NewInternalError(errors.New("boom")))
				g.sleep(time.Minute)
				if st := g.r.Status(); st.Comparisons != 1 || !st.Live {
					t.Errorf("status %+v", st)
				}
				g.stop()
			})
		})
	}
}

func TestSlowComparison(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.other(7) }, reflector.Options{Compare: func(ctx context.Context) (reflector.Comparison, error) {
			time.Sleep(time.Minute) // the request waits in the queue of client-go's rate limiter
			if ctx.Err() != nil {
				t.Error("the time for a request that was not sent is over")
			}
			httptrace.ContextClientTrace(ctx).WroteRequest(httptrace.WroteRequestInfo{})
			<-ctx.Done()
			return reflector.Comparison{}, ctx.Err()
		}})
		g.sleep(time.Minute + 15*time.Second)
		if st := g.r.Status(); st.Comparisons != 1 || st.Lookups != 1 || g.m.syncs() != 1 || len(g.errs) != 0 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

// TestCompareAndARewind checks that Options.Compare detects a server below the stored resourceVersion.
func TestCompareAndARewind(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(5)
		g.start(reflector.Options{})
		g.restart(func() { g.s.rv = 80; g.s.history, g.s.ledger = nil, nil }, g.compared(nil, nil))
		g.sleep(20 * time.Second)
		g.wantRelist(reflector.ReasonAhead)
		g.stop()
	})
}

func TestStopWhileItIsCompared(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.other(7) }, reflector.Options{Compare: func(ctx context.Context) (reflector.Comparison, error) {
			<-ctx.Done()
			return reflector.Comparison{}, ctx.Err()
		}})
		g.stop()
	})
}

// TestVerifyBesideCompare checks that Options.Verify runs at the same time as Compare. A reason to list takes
// precedence over an error, and an error is reported once.
func TestVerifyBesideCompare(t *testing.T) {
	boom, gone := errors.New("from the test"), errors.New("no connection")
	for name, c := range map[string]struct {
		rewind  bool
		compare error
		reason  reflector.Reason
		err     error
		log     []string
		errs    []error
		want    reflector.Reason
	}{
		"another cluster": {reason: reflector.ReasonCluster,
			log: []string{"BEGIN ClusterChanged", "PAGE 1", "END 108", "SYNCED"}, want: reflector.ReasonCluster},
		"an error": {err: boom, errs: []error{boom}},
		"a rewind, and an error": {rewind: true, err: boom, log: []string{"MUSTLIST AheadOfServer"},
			want: reflector.ReasonAhead},
		"both fail": {compare: gone, err: boom, errs: []error{gone}},
		"a reason beside a failure": {compare: gone, reason: reflector.ReasonCluster, errs: []error{gone},
			log: []string{"BEGIN ClusterChanged"}, want: reflector.ReasonCluster},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				verified := make(chan struct{})
				calls, accepted := 0, false
				failure := c.compare
				o := g.compared(func() error {
					<-verified
					err := failure
					failure = nil
					return err
				}, nil)
				o.Verify = func(context.Context, time.Time) (reflector.Reason, error) {
					if calls++; calls > 1 {
						return "", nil
					}
					g.barrier()
					if !accepted {
						t.Error("asked before the watch was accepted")
					}
					close(verified)
					return c.reason, c.err
				}
				g.restart(func() {
					g.s.other(7)
					if c.rewind {
						g.s.rv, g.s.history, g.s.ledger = 100, nil, nil
					}
					g.s.onWatch = func(context.Context, request) (watch.Interface, error) { accepted = true; return nil, nil }
				}, o)
				if l := g.m.lines(); !slices.Equal(l[:min(len(l), len(c.log))], c.log) || len(c.log) == 0 && len(l) > 0 {
					t.Errorf("sink calls %q, want %q first", l, c.log)
				}
				if len(g.errs) != len(c.errs) || len(g.errs) > 0 && !errors.Is(g.errs[0], c.errs[0]) {
					t.Errorf("errors %v, want %v", g.errs, c.errs)
				}
				g.sleep(time.Minute)
				if c.want != "" {
					g.wantRelist(c.want)
				} else {
					g.wantNoList()
				}
				if g.m.syncs() != 1 {
					t.Errorf("%d times synced", g.m.syncs())
				}
				g.stop()
			})
		})
	}
}

// TestVerifyReceivesTimeOfLoss: an answer from before the loss of the connection may be from another server.
func TestVerifyReceivesTimeOfLoss(t *testing.T) {
	bubble(t, func(g *rig) {
		var calls []time.Time
		g.s.put("a/x", "1")
		g.start(reflector.Options{Verify: func(_ context.Context, lost time.Time) (reflector.Reason, error) {
			g.barrier()
			calls = append(calls, lost)
			return "", nil
		}})
		g.sleep(time.Hour / 60)
		cut := time.Now()
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(10 * time.Second)
		if len(calls) != 2 || !calls[0].IsZero() || !calls[1].Equal(cut) {
			t.Errorf("calls with %v, cut at %v", calls, cut)
		}
		g.stop()
	})
}
