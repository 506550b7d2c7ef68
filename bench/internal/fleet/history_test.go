package fleet

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHistory checks that a list at any time equals the events of a watch until then, and that a watch from any
// resourceVersion continues with the next change.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := history{began: time.Now()}
		state := h.objects(0, 0, kept)
		rv, sent := h.rv(0), 0
		for range 3 * kept * int(changeEvery/time.Second) {
			time.Sleep(time.Second)
			at := h.now()
			for ; sent < h.changes(at); sent++ {
				obj := h.changed(sent + 1)
				i, _ := strconv.Atoi(string(obj.UID))
				if _, err := strconv.ParseInt(obj.ResourceVersion, 10, 64); err != nil || obj.Name != state[i].Name {
					t.Fatalf("change %d is of %s: %+v", sent+1, state[i].Name, obj)
				}
				state[i] = obj
			}
			if now := h.rv(at); now <= rv {
				t.Fatalf("the resourceVersion went from %d to %d", rv, now)
			}
			rv = h.rv(at)
			if next := h.next(rv); next != sent+1 {
				t.Fatalf("a watch from %d goes on with change %d, want %d", rv, next, sent+1)
			}
			same := func(a, b *metav1.PartialObjectMetadata) bool {
				return a.Name == b.Name && a.ResourceVersion == b.ResourceVersion
			}
			if listed := h.objects(at, 0, kept); !slices.EqualFunc(listed, state, same) {
				t.Fatalf("after %v a list differs from what a watch has sent", at)
			}
		}
		if due := h.due(sent + 1); due <= 0 || due > changeEvery {
			t.Errorf("the next change is due in %v", due)
		}
	})
}
