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
