package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// TestRewoundServer checks that an informer notices if the server's history is not the history of the informer's stored
// resourceVersion. Each case must end with the server's state, and deliver the deletes.
func TestRewoundServer(t *testing.T) {
	t.Parallel()
	cp := ownControlPlane(t)
	t.Run("younger cluster", func(t *testing.T) { testYoungerCluster(t, cp, false) })
	t.Run("younger cluster, id checked", func(t *testing.T) { testYoungerCluster(t, cp, true) })
	t.Run("restored, while down", func(t *testing.T) { testRestored(t, cp, false, false) })
	t.Run("restored, while watching", func(t *testing.T) { testRestored(t, cp, true, false) })
	t.Run("restored and overtaken, while down", func(t *testing.T) { testRestored(t, cp, false, true) })
	t.Run("restored and overtaken, while watching", func(t *testing.T) { testRestored(t, cp, true, true) })
}

// testYoungerCluster replaces the cluster by a new one with lower resourceVersions, at the same address.
func testYoungerCluster(t *testing.T, cp *controlplane.ControlPlane, checkID bool) {
	c := newCluster(t, cp)
	// Without a cluster id, only the lower resourceVersion reveals the new cluster.
	withID := func(o *informer.Options) {
		if checkID {
			o.ClusterID = func(ctx context.Context) (string, error) {
				ns, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				return string(ns.UID), nil
			}
		}
	}
	c.createPods(t, names("old", 0, 300))
	f := newFile(t)
	src := podSource(t, cp.Config(t.Name()), c.ns)
	_, before := f.run(t, src, withID)

	if err := cp.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.createNamespace(t, c.ns)
	c.createPods(t, names("young", 0, 5))
	c.createPods(t, names("old", 0, 5)) // new objects with the keys of old ones
	want := c.pods(t)
	s := f.start(t, src, withID)
	s.sync(t)
	if problem := want.diff(s.held(t)); problem != "" {
		t.Error("after HasSynced:", problem)
	}
	s.expectReplaced(t, before.objects, want)
	reason := reflector.ReasonAhead
	if checkID {
		reason = reflector.ReasonCluster
	}
	s.checkRelist(t, reason)
	c.checkLive(t, s)
}

// testRestored restores etcd from an older backup. With running, the informer runs during the restore. With overtaken,
// the server's resourceVersion exceeds the client's before the client reconnects.
func testRestored(t *testing.T, cp *controlplane.ControlPlane, running, overtaken bool) {
	c := newCluster(t, cp)
	c.createPods(t, names("p", 0, 50))
	backup, err := cp.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost, others := 20, 3
	if soak {
		lost, others = 40, 6
	}
	// These changes are the lost history: the client has seen them, and the restored server has not.
	c.createPods(t, names("lost", 0, 20))
	for n := range lost { // more than the number of writes of a starting API server
		c.touchPods(t, names("p", 0, 10), fmt.Sprint("lost ", n))
	}
	c.deletePods(t, names("p", 40, 50))

	n := newNetwork(t, c.Address())
	f := newFile(t)
	src := podSource(t, n.through(cp.Config(t.Name())), c.ns)
	s := f.start(t, src)
	s.sync(t)
	before := c.pods(t)
	s.converge(t, before)
	left := s.Status().ResourceVersion
	if running {
		if err := n.set(refusing); err != nil {
			t.Fatal(err)
		}
	} else {
		s.stop(t)
		f.close(t)
	}
	if err := cp.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	// If the server's resourceVersion is lower than the client's, the client notices that or changed objects. If it is
	// higher, only the objects reveal the restored backup.
	reasons := []reflector.Reason{reflector.ReasonAhead, reflector.ReasonRewound}
	if overtaken {
		reasons = reasons[1:]
		for range others {
			c.createPods(t, names("other", 0, 50))
			c.deletePods(t, names("other", 0, 50))
		}
		c.createPods(t, names("after", 0, 10))
	}
	want, now := c.pods(t), c.resourceVersion(t)
	if newer(t, now, left) != overtaken {
		t.Fatalf("the server stands at RV %s and the client at %s: the test shows nothing", now, left)
	}
	if running {
		if err := n.set(passing); err != nil {
			t.Fatal(err)
		}
	} else {
		s = f.start(t, src)
		s.sync(t)
		if problem := want.diff(s.held(t)); problem != "" {
			t.Error("after HasSynced:", problem)
		}
	}
	s.converge(t, want)
	s.expect(t, before, want)
	s.checkRelist(t, reasons...)
	c.checkLive(t, s)
}

func (s *subject) checkRelist(t *testing.T, reasons ...reflector.Reason) {
	t.Helper()
	st := s.Status().Reflector
	for _, reason := range reasons {
		if st.Relists[reason] == 1 && len(st.Relists) == 1 {
			return
		}
	}
	t.Errorf("relists: %v, want one for %v", st.Relists, reasons)
}

func (c *cluster) resourceVersion(t *testing.T) string {
	t.Helper()
	list, err := c.client.CoreV1().Pods(c.ns).List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

func (c *cluster) checkLive(t *testing.T, s *subject) {
	t.Helper()
	c.createPods(t, []string{"live"})
	s.converge(t, c.pods(t))
}

// expectReplaced waits until the handler has received the difference between two states. An object whose UID changed
// may arrive as a delete and an add, or as an update: client-go permits either.
func (s *subject) expectReplaced(t *testing.T, before, after objects) {
	t.Helper()
	state := objects{}
	eventually(t, "changes", func() string {
		clear(state)
		for _, n := range s.all(t) {
			if n.verb == "delete" {
				delete(state, n.key)
			} else {
				state[n.key] = n.obj
			}
		}
		return after.diff(state)
	})
	reported := map[string]bool{}
	for _, n := range s.replayed(t, before) {
		if n.verb == "delete" {
			reported[n.key] = true
		}
	}
	for key := range before {
		if _, still := after[key]; !still && !reported[key] {
			t.Errorf("the delete of %s was not told", key)
		}
	}
}
