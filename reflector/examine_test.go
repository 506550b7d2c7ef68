package reflector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// lose makes changes of which no event is sent.
func (s *server) lose(key string, change func()) {
	s.mu.Lock()
	s.swallow = map[string]bool{key: true}
	s.mu.Unlock()
	change()
	s.mu.Lock()
	s.swallow = nil
	s.mu.Unlock()
}

// wantRepaired fails unless exactly these were repaired, without a list.
func (g *rig) wantRepaired(keys ...string) {
	g.t.Helper()
	if got := g.m.repairs(); !slices.Equal(got, keys) {
		g.t.Errorf("repaired %q, want %q", got, keys)
	}
	if st := g.r.Status(); len(st.Relists) != 0 {
		g.t.Errorf("relists %v", st.Relists)
	}
	g.converged()
}

// TestExamineFindsWhatWasLost: each kind of difference, on a resource that is quiet but for bookmarks.
func TestExamineFindsWhatWasLost(t *testing.T) {
	lost := map[string]func(s *server){
		"created":   func(s *server) { s.put("a/z", "1") },
		"updated":   func(s *server) { s.put("a/x", "2") },
		"deleted":   func(s *server) { s.remove("a/x") },
		"recreated": func(s *server) { s.remove("a/x"); s.put("a/x", "2") },
	}
	for name, change := range lost {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.s.put("a/y", "1")
				g.start(Options{})
				key := "a/x"
				if name == "created" {
					key = "a/z"
				}
				g.s.lose(key, func() { change(g.s) })
				g.s.other(1)
				g.r.Examine(key, "a/y", key)
				g.sleep(time.Millisecond)
				g.wantNothingSettled()
				g.sleep(time.Minute) // a bookmark
				g.wantRepaired(key)
				g.s.cut(apierrors.NewInternalError(errors.New("boom"))) // the guard does not take the repair for a rewind
				g.sleep(10 * time.Second)
				g.wantRepaired(key)
				g.stop()
			})
		})
	}
}

func (g *rig) wantNothingSettled() {
	g.t.Helper()
	for _, line := range g.m.lines() {
		if len(line) > 8 && line[:8] == "EXAMINED" {
			g.t.Errorf("told %q, and the stream has not come to the answer", line)
		}
	}
}

// TestExamineWaitsForTheStream: the answer is ahead of what has come. Events up to it are taken in first, and do not excuse a difference; what comes after it does.
func TestExamineWaitsForTheStream(t *testing.T) {
	later := map[string]func(s *server){
		"nothing":  func(*server) {},
		"update":   func(s *server) { s.put("a/x", "9") },
		"delete":   func(s *server) { s.remove("a/x") },
		"recreate": func(s *server) { s.remove("a/x"); s.put("a/x", "9") },
	}
	for name, change := range later {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(Options{})
				g.s.put("a/x", "2") // at or below the answer
				g.s.lose("a/x", func() { g.s.put("a/x", "3") })
				g.s.afterList = func(request) { // before the answer is there
					g.s.mu.Lock()
					g.s.afterList = nil
					g.s.mu.Unlock()
					change(g.s)
					g.s.put("a/other", "1")
				}
				g.r.Examine("a/x")
				g.sleep(time.Millisecond)
				outcome := "EXAMINED a/x Moot"
				var repaired []string
				if name == "nothing" {
					outcome, repaired = "EXAMINED a/x Settled", []string{"a/x"}
				}
				if !slices.Contains(g.m.lines(), outcome) {
					t.Errorf("told %q, want %q", g.m.lines(), outcome)
				}
				g.wantRepaired(repaired...)
				g.stop()
			})
		})
	}
}

// TestExamineAgreesUnderLoad: on a server that writes all the time nothing is ever found that was not lost.
func TestExamineAgreesUnderLoad(t *testing.T) {
	bubble(t, func(g *rig) {
		key := func(n int) string { return fmt.Sprintf("a/%02d", n%20) }
		for n := range 20 {
			g.s.put(key(n), "1")
		}
		n := 0
		g.s.afterList = func(request) { n++; g.s.put(key(n), "2"); g.s.remove(key(n * 7)) }
		g.start(Options{})
		for i := range 2000 {
			g.s.put(key(i*3), "3")
			g.s.remove(key(i * 11))
			g.r.Examine(key(i))
			if i%50 == 0 {
				g.s.cut(apierrors.NewInternalError(errors.New("boom")))
			}
			g.sleep(100 * time.Millisecond)
		}
		g.sleep(5 * time.Minute)
		g.wantRepaired()
		if n < 500 {
			t.Errorf("only %d look-ups: the test tests nothing", n)
		}
		g.stop()
	})
}

// TestExamineSurvivesALostConnection cuts the watch in each gap: before the request, before its answer, and before the stream has reached it.
func TestExamineSurvivesALostConnection(t *testing.T) {
	boom := apierrors.NewInternalError(errors.New("boom"))
	for gap := range 3 {
		t.Run(fmt.Sprint("gap ", gap), func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(Options{})
				g.s.lose("a/z", func() { g.s.put("a/z", "1") }) // none that the guard knows
				g.s.other(1)
				switch gap {
				case 0:
					g.s.cut(boom)
				case 1:
					g.s.afterList = func(request) {
						g.s.mu.Lock()
						g.s.afterList = nil
						g.s.mu.Unlock()
						g.s.cut(boom)
					}
				}
				g.r.Examine("a/z")
				g.sleep(time.Millisecond)
				if gap == 2 {
					g.s.cut(boom)
				}
				g.sleep(2 * time.Minute)
				g.wantRepaired("a/z")
				g.stop()
			})
		})
	}
}

// TestExamineIsMadeAListOf what can not be looked up.
func TestExamineIsMadeAListOf(t *testing.T) {
	setups := map[string]func(s *server){
		"an overwritten field selector": func(s *server) { s.fixedSelector = "metadata.namespace=a" },
		"a refused field selector": func(s *server) {
			s.onList = func(r request) (runtime.Object, error) {
				if r.FieldSelector != "" {
					return nil, apierrors.NewBadRequest("field label not supported: metadata.name")
				}
				return nil, nil
			}
		},
		"an answer without a resourceVersion": func(s *server) {
			s.onList = func(r request) (runtime.Object, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.noListRV = r.FieldSelector != ""
				return nil, nil
			}
		},
	}
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.s.put("a/y", "1")
				g.start(Options{})
				g.sleep(3 * time.Minute)
				setup(g.s)
				g.s.lose("a/y", func() { g.s.put("a/y", "2") })
				g.r.Examine("a/y", "a/x")
				g.sleep(time.Minute)
				g.wantRelist(ReasonAudit)
				l := g.m.lines()
				if !slices.Contains(l, "EXAMINED a/x Listed") || !slices.Contains(l, "EXAMINED a/y Listed") {
					t.Errorf("told %q", l)
				}
				g.stop()
			})
		})
	}
}

// TestExamineBesideAList: the list says more. Who asked is told once, when it has ended.
func TestExamineBesideAList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(Options{})
		g.sleep(3 * time.Minute)
		g.s.lose("a/x", func() { g.s.put("a/x", "2") })
		g.s.other(1)
		g.r.Examine("a/x")
		g.sleep(time.Millisecond)
		g.r.Relist(ReasonAudit)
		g.sleep(10 * time.Second)
		g.wantRelist(ReasonAudit)
		l := g.m.lines()
		if n := slices.Index(l, "EXAMINED a/x Listed"); n < 1 || l[n-1][:3] != "END" || g.r.Status().Lists != 2 {
			t.Errorf("told %q", l)
		}
		g.stop()
	})
}

// TestExamineAnswersFromThePast: the server has gone back, which no reconnect was needed for to notice.
func TestExamineAnswersFromThePast(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(Options{})
		g.sleep(3 * time.Minute)
		g.s.mu.Lock()
		g.s.rv--
		g.s.mu.Unlock()
		g.r.Examine("a/x")
		g.sleep(time.Second)
		if st := g.r.Status(); st.Relists[ReasonAhead] != 1 {
			t.Errorf("relists %v", st.Relists)
		}
		g.cancel()
		if err := <-g.done; err != nil {
			t.Error(err)
		}
	})
}

// TestExamineTriesAgain: errors of the request end nothing.
func TestExamineTriesAgain(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(Options{})
		fail := true
		g.s.onList = func(r request) (runtime.Object, error) {
			g.s.mu.Lock()
			defer g.s.mu.Unlock()
			if fail && r.FieldSelector != "" {
				return nil, errRefused
			}
			return nil, nil
		}
		g.s.lose("a/x", func() { g.s.remove("a/x") })
		g.s.other(1)
		g.r.Examine("a/x")
		g.sleep(70 * time.Second)
		g.wantNothingSettled()
		if st := g.r.Status(); st.Lookups < 3 || st.State != Watch || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		g.s.mu.Lock()
		fail = false
		g.s.mu.Unlock()
		g.sleep(2 * time.Minute)
		g.wantRepaired("a/x")
		g.stop()
	})
}

// TestExamineWithoutBookmarks: nothing tells that the stream is at the answer, so a list does.
func TestExamineWithoutBookmarks(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noBookmarks = true
		g.s.put("a/x", "1")
		g.start(Options{})
		g.sleep(3 * time.Minute)
		g.s.lose("a/z", func() { g.s.put("a/z", "1") })
		g.s.other(1)
		g.r.Examine("a/z")
		g.sleep(10 * time.Minute)
		g.wantRelist(ReasonAudit)
		g.stop()
	})
}

// TestExamineStopsInTheMiddle: Run ends with a request under way, and leaves nothing behind (goleak).
func TestExamineStopsInTheMiddle(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(Options{})
		hang := make(chan struct{})
		g.s.onList = func(r request) (runtime.Object, error) { <-hang; return nil, context.Canceled }
		g.r.Examine("a/x", "a/y")
		g.sleep(time.Second)
		go func() { time.Sleep(time.Second); close(hang) }()
		g.cancel()
		if err := <-g.done; err != nil {
			t.Error(err)
		}
	})
}

// TestExamineStrays: an object that is none of those asked for is not there.
func TestExamineStrays(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(Options{Admit: func(obj runtime.Object) error {
			if acc := obj.(metav1.Object); acc.GetName() == "stray" {
				return errors.New("from the test")
			}
			return nil
		}})
		g.s.lose("a/stray", func() { g.s.put("a/stray", "1") })
		g.s.other(1)
		g.r.Examine("a/stray")
		g.sleep(time.Minute)
		if got := g.m.repairs(); len(got) > 0 || !slices.Contains(g.m.lines(), "EXAMINED a/stray Settled") {
			t.Errorf("repaired %q, told %q", got, g.m.lines())
		}
		g.stop()
	})
}
