package reflector_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// sameAs are options whose Same gives that answer.
func sameAs(rv string, same bool, err error) reflector.Options {
	return reflector.Options{Same: func(context.Context) (string, bool, error) { return rv, same, err }}
}

// TestSame: what is held is what the server has, so no bookmark is waited for, and nothing else is asked. The bookmark
// moves the sink on all the same.
func TestSame(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.other(7) }, sameAs("108", true, nil))
		g.wantLog("SYNCED")
		if st := g.r.Status(); st.State != reflector.Watch || !st.Live || st.Lookups != 0 || st.Probes != 0 ||
			st.Watches != 1 || st.Resumes != 1 {
			t.Errorf("status %+v", st)
		}
		g.sleep(time.Second)
		g.wantLog("SYNCED", "BOOKMARK 108")
		g.sleep(time.Minute)
		if st := g.r.Status(); st.Probes != 1 || st.Watches != 2 || st.Lists != 0 || g.m.syncs() != 1 {
			t.Errorf("after the short watch: %+v", st)
		}
		g.stop()
	})
}

// TestSameIsAskedOfTheAcceptedWatch: an answer from before it may be another server's than the one that tells the
// history.
func TestSameIsAskedOfTheAcceptedWatch(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		refusals, refused, asked := 3, 0, 0
		g.restart(func() {
			g.s.other(7)
			g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
				if refused < refusals {
					refused++
					return nil, io.EOF
				}
				return nil, nil
			}
		}, reflector.Options{Same: func(context.Context) (string, bool, error) {
			g.barrier()
			if asked++; refused < refusals {
				t.Errorf("asked when the watch had been refused %d times", refused)
			}
			return "108", true, nil
		}})
		g.sleep(time.Minute)
		if st := g.r.Status(); asked != 1 || g.m.syncs() != 1 || st.Lookups != 0 {
			t.Errorf("asked %d times; status %+v", asked, st)
		}
		g.stop()
	})
}

// TestSameButLeftOut: what was left out is not held, so the question is not asked.
func TestSameButLeftOut(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		left := []entry.ObjectRef{{Key: "a/x", UID: "uid-1", ResourceVersion: "101"}}
		g.restart(func() { g.m.cp = &reflector.Checkpoint{ResourceVersion: "101", LeftOut: left} },
			reflector.Options{Same: func(context.Context) (string, bool, error) {
				t.Error("asked")
				return "101", true, nil
			}})
		g.sleep(10 * time.Second)
		if g.m.syncs() == 0 {
			t.Error("not synced")
		}
		g.stop()
	})
}

// TestLateNo: the bookmark of a watch that is so old may have come already, so another one is asked for.
func TestLateNo(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.other(7) }, reflector.Options{Same: func(context.Context) (string, bool, error) {
			time.Sleep(earlyTime + time.Millisecond)
			return "108", false, nil
		}})
		g.sleep(1400 * time.Millisecond)
		if st := g.r.Status(); g.m.syncs() != 1 || st.Watches != 2 || st.Probes != 1 || st.Lookups != 1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestNotTheSame: whatever else Same says, the guards and the drain go on as without, and it is asked once.
func TestNotTheSame(t *testing.T) {
	calls := 0
	counted := func(o reflector.Options) reflector.Options {
		inner := o.Same
		o.Same = func(ctx context.Context) (string, bool, error) { calls++; return inner(ctx) }
		return o
	}
	hanging := reflector.Options{Same: func(ctx context.Context) (string, bool, error) {
		<-ctx.Done()
		return "108", true,
			nil
	}}
	for name, o := range map[string]reflector.Options{
		"no": sameAs("108", false, nil), "an error": sameAs("108", true, errors.New("from the test")),
		"older than we are": sameAs("100", true, nil), "not comparable": sameAs("x", true, nil), "too late": hanging,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				calls = 0
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				g.restart(func() { g.s.put("a/y", "1"); g.s.other(6) }, counted(o))
				if g.m.syncs() != 0 {
					t.Error("synced before the drain")
				}
				g.sleep(5 * time.Second)
				g.converged()
				if st := g.r.Status(); g.m.syncs() != 1 || st.Lookups == 0 || st.Probes == 0 || len(st.Relists) != 0 || calls != 1 {
					t.Errorf("status %+v, asked %d times", st, calls)
				}
				g.sleep(time.Minute) // in which there is another connect
				if calls != 1 {
					t.Errorf("asked %d times", calls)
				}
				g.stop()
			})
		})
	}
}

// TestSameAndARewind: what the guards find they find.
func TestSameAndARewind(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(5)
		g.start(reflector.Options{})
		g.restart(func() { g.s.rv = 80; g.s.history, g.s.ledger = nil, nil }, sameAs("80", true, nil))
		g.sleep(20 * time.Second)
		g.wantRelist(reflector.ReasonAhead)
		g.stop()
	})
}

// TestStopWhileItIsCompared: Run returns with nothing running.
func TestStopWhileItIsCompared(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.other(7) }, reflector.Options{Same: func(ctx context.Context) (string, bool, error) {
			<-ctx.Done()
			return "", false, ctx.Err()
		}})
		g.stop()
	})
}

// TestVerifyThatFailsBesideSame: what Same, or the probe in its place, has shown stands, and an error is told once.
func TestVerifyThatFailsBesideSame(t *testing.T) {
	boom, gone := errors.New("from the test"), errors.New("no connection")
	for name, c := range map[string]struct {
		same   reflector.Options
		reason reflector.Reason
		err    error // of Verify, at first
		probe  error // of the probe, at first
		log    string
		errs   []error
		want   reflector.Reason
	}{
		"a rewind, Verify fails": {
			same: sameAs("100", true, nil), err: boom, log: "MUSTLIST AheadOfServer", want: reflector.ReasonAhead,
		},
		"a rewind, Verify refuses": {
			same: sameAs("100", true, nil), reason: reflector.ReasonCluster, log: "BEGIN ClusterChanged",
			want: reflector.ReasonCluster,
		},
		"no connection, Verify fails":   {same: sameAs("", false, gone), err: boom, probe: gone, errs: []error{gone}},
		"all is well, but Verify fails": {same: sameAs("108", true, nil), err: boom, errs: []error{boom}},
		"no connection, Verify refuses": {
			same: sameAs("", false, gone), reason: reflector.ReasonCluster, probe: gone, log: "BEGIN ClusterChanged",
			errs: []error{gone}, want: reflector.ReasonCluster,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				calls, probes := 0, 0
				o := c.same
				o.Verify = func(context.Context) (reflector.Reason, error) {
					if calls++; calls > 1 {
						return "", nil
					}
					return c.reason, c.err
				}
				g.restart(func() {
					if c.want == reflector.ReasonAhead || name == "a rewind, Verify refuses" {
						g.s.rv, g.s.history, g.s.ledger = 100, nil, nil
					} else {
						g.s.other(7)
					}
					g.s.onList = func(r request) (runtime.Object, error) {
						if probes++; probes == 1 {
							return nil, c.probe
						}
						return nil, nil
					}
				}, o)
				if l := g.m.lines(); c.log != "" && (len(l) == 0 || l[0] != c.log) || c.log == "" && len(l) > 0 {
					t.Errorf("told %q, want %q first", l, c.log)
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
				g.stop()
			})
		})
	}
}

// TestVerifyBesideSame: in the first connect of a resumed run Options.Verify is asked at once with Same, of the server
// that has accepted the watch, and has the last word.
func TestVerifyBesideSame(t *testing.T) {
	for name, c := range map[string]struct {
		reason reflector.Reason
		err    error
		log    []string // before any time has passed
	}{
		"another cluster": {reason: reflector.ReasonCluster,
			log: []string{"BEGIN ClusterChanged", "PAGE 1", "END 108", "SYNCED"}},
		"an error": {err: errors.New("from the test")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				verified := make(chan struct{})
				calls, accepted := 0, false
				g.restart(func() {
					g.s.other(7)
					g.s.onWatch = func(context.Context, request) (watch.Interface, error) { accepted = true; return nil, nil }
				}, reflector.Options{
					Verify: func(context.Context) (reflector.Reason, error) {
						if calls++; calls > 1 {
							return "", nil
						}
						g.barrier()
						if !accepted {
							t.Error("asked before the watch was accepted")
						}
						close(verified)
						return c.reason, c.err
					},
					Same: func(context.Context) (string, bool, error) { <-verified; return "108", true, nil },
				})
				g.wantLog(c.log...)
				g.sleep(time.Minute)
				if st := g.r.Status(); g.m.syncs() != 1 || c.reason != "" && st.Relists[c.reason] != 1 {
					t.Errorf("status %+v, %d times synced", st, g.m.syncs())
				}
				g.stop()
			})
		})
	}
}
