package informer_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLeftOutLookUpTimesOut checks that a look-up of a left-out object that always times out blocks neither the watch
// nor the sync.
func TestLeftOutLookUpTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t)
		p.start(badIndex)
		p.srv.Write("a/good", "x")
		p.srv.Write("a/huge", "bad")
		p.srv.Write("a/other", "x")
		p.waitIdle()
		p.end()
		asked := 0
		p.srv.SetFail(func(verb string, o metav1.ListOptions) error {
			if verb == "list" && strings.Contains(o.FieldSelector, "huge") {
				asked++
				return context.DeadlineExceeded // a request that has timed out fails with this error
			}
			return nil
		})
		p.start(noBug)
		p.srv.Write("a/new", "y")
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if !p.i.HasSynced() || !slices.Contains(p.i.GetStore().ListKeys(), "a/new") {
			t.Errorf("synced %v, held %v after %d requests for the object that does not come", p.i.HasSynced(),
				p.i.GetStore().ListKeys(), asked)
		}
		p.srv.SetFail(nil)
		p.end()
	})
}
