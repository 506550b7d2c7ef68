package e2e

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// TestRewindGivesTheSameVersionsAgain restores etcd, and writes the lost pods again with other contents but the same
// UIDs and resourceVersions. The relist must replace all of the lost contents (issue 16, A1).
func TestRewindGivesTheSameVersionsAgain(t *testing.T) {
	t.Parallel()
	cp := ownControlPlane(t)
	t.Run("the server is behind us", func(t *testing.T) { testSameVersions(t, cp, false) })
	t.Run("the server is past us", func(t *testing.T) { testSameVersions(t, cp, true) })
}

func testSameVersions(t *testing.T, cp *controlplane.ControlPlane, past bool) {
	c := newCluster(t, cp)
	pods := names("p", 0, 20)
	c.createPods(t, append([]string{"clock"}, pods...))
	backup, err := cp.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 { // more than the number of writes of a starting API server
		c.touch(t, "clock", fmt.Sprint("lost ", n))
	}
	first := 0
	for n, name := range pods {
		if rv := c.touch(t, name, "lost"); n == 0 {
			first = rv
		}
	}
	f := newFile(t)
	src := podSource(t, cp.Config(t.Name()), c.ns)
	_, before := f.run(t, src)

	if err := cp.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	for n := 0; c.touch(t, "clock", fmt.Sprint("again ", n)) < first-1; n++ {
	}
	again := pods[:10]
	if past { // pods that stay as in the backup differ from the stored pods, which the look-ups notice
		again = pods[:15]
	}
	for _, name := range again {
		c.touch(t, name, "other")
	}
	for n := 0; past && !newer(t, c.resourceVersion(t), before.ResourceVersion); n++ {
		c.touch(t, "clock", fmt.Sprint("beyond ", n))
	}
	want, same := c.pods(t), 0
	for key, obj := range want {
		if lost := before.objects[key]; rvOf(lost) == rvOf(obj) && !equal(lost, obj) {
			same++
		}
	}
	if same == 0 || newer(t, c.resourceVersion(t), before.ResourceVersion) != past {
		t.Fatalf(
			"%d pods have another body under the same resourceVersion; the server is at %s, and the client at %s: the test "+
				"shows nothing",
			same, c.resourceVersion(t), before.ResourceVersion)
	}
	s := f.start(t, src)
	s.sync(t)
	if problem := want.diff(s.held(t)); problem != "" {
		t.Error("after HasSynced:", problem)
	}
	s.expectReplaced(t, before.objects, want)
	reasons := []reflector.Reason{reflector.ReasonAhead, reflector.ReasonRewound}
	if past {
		reasons = reasons[1:]
	}
	s.checkRelist(t, reasons...)
	c.checkLive(t, s)
	s.stop(t)
	f.close(t)
	if problem := c.pods(t).diff(f.read(t, src.identity, src.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
}

func (c *cluster) touch(t *testing.T, name, value string) int {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, value)
	pod, err := c.client.CoreV1().Pods(c.ns).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rv, err := strconv.Atoi(pod.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return rv
}
