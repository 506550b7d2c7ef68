package reflector

import (
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestExamineBesideOthers: events of an object of another shard, or of a stray, under the key that is examined bring nothing newer of what is held there. The object
// was deleted, which was lost, and another has its name since.
func TestExamineBesideOthers(t *testing.T) {
	for _, who := range []string{"foreign", "stray"} {
		t.Run(who, func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := Options{}
				if who == "foreign" {
					o = g.sharded(false, o)
				} else {
					o.Admit = func(obj runtime.Object) error {
						if obj.(metav1.Object).GetUID() == "uid-3" {
							return errors.New("from the test")
						}
						return nil
					}
				}
				for _, key := range []string{"a/x", "a/y"} {
					if who == "foreign" {
						g.s.nextIn(true)
					}
					g.s.put(key, "1")
				}
				g.start(o)
				g.s.lose("a/x", func() {
					g.s.remove("a/x")
					if who == "foreign" {
						g.s.nextIn(false)
					}
					g.s.put("a/x", "other")
				})
				// The next event that comes is above the answer.
				g.s.afterList = func(request) {
					g.s.mu.Lock()
					g.s.afterList = nil
					g.s.mu.Unlock()
					g.s.put("a/x", "newer")
					g.s.put("a/y", "2")
				}
				g.r.Examine("a/x")
				g.sleep(2 * time.Minute)
				if got := g.m.repairs(); !slices.Equal(got, []string{"a/x"}) {
					t.Errorf("repaired %q; told %q", got, g.m.lines())
				}
				if _, holds := g.m.state()["a/x"]; holds {
					t.Error("what was deleted is still held")
				}
				g.cancel() // not stop: of a stray the sink is told no resourceVersion, so it finds that the answer is ahead of the stream
				if err := <-g.done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestExaminedInALostHistory: the server was restored to a backup from before an answer that the stream has not come to. The answer is not one of the history that goes on.
func TestExaminedInALostHistory(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(Options{})
		g.sleep(3 * time.Minute)
		g.s.other(10)
		b := g.s.backup()
		g.s.lose("a/y", func() { g.s.put("a/y", "lost") })
		g.r.Examine("a/y")
		g.sleep(time.Millisecond)
		g.s.restore(b)
		g.sleep(10 * time.Second)
		g.s.other(50)
		g.sleep(10 * time.Minute)
		g.converged()
		if st := g.r.Status(); st.Relists[ReasonAhead] != 1 || !slices.Contains(g.m.lines(), "EXAMINED a/y Listed") {
			t.Errorf("relists %v, told %q", st.Relists, g.m.lines())
		}
		g.cancel() // not stop: the place of the bookmark went back with the server
		if err := <-g.done; err != nil {
			t.Error(err)
		}
	})
}
