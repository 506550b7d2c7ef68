package fakeapi

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSnapshotAndRestore(t *testing.T) {
	s := start(t, Options{})
	ctx := testContext(t)
	pods := typed(t, s, contentProtobuf).CoreV1().Pods("")
	load(t, s, 2) // the pods are at resourceVersions 1002 and 1003
	backup := s.Snapshot()
	must(t, s.Delete(podsGVR, "default", "pod-00000")) // the delete is at resourceVersion 1004
	must(t, s.Load(podsGVR, pod("default", "lost", nil)))
	open, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1005"})
	must(t, err)
	defer open.Stop()
	must(t, s.Restore(backup))
	if e, ok := <-open.ResultChan(); ok {
		t.Errorf("an open watch got %s", describeEvent(e))
	}
	list, err := pods.List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 2 || list.ResourceVersion != "1003" || list.Items[0].Name != "pod-00000" {
		t.Errorf("restored: %d pods at %s", len(list.Items), list.ResourceVersion)
	}
	// After the restore the server is behind a client at 1005. When it has passed 1005 again, that client gets no error.
	must(t, s.Load(podsGVR, pod("default", "x", nil), pod("default", "y", nil), pod("default", "z", nil)))
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1005"})
	must(t, err)
	expect(t, w, "ADDED default/z 1006")
	w.Stop()
	w, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002"})
	must(t, err)
	expect(t, w, "ADDED default/pod-00001 1003", "ADDED default/x 1004")
	w.Stop()
	must(t, s.Restore(backup))
	if s.RV() != "1003" || len(s.List(podsGVR)) != 2 {
		t.Errorf("restored again: %d pods at %s", len(s.List(podsGVR)), s.RV())
	}
	// The snapshot of a new server makes the restored server look like a younger cluster at the same address.
	uid := kubeSystemUID(t, s)
	must(t, s.Restore(New(Options{}).Snapshot()))
	if len(s.List(podsGVR)) != 0 || s.RV() != "1001" || kubeSystemUID(t, s) == uid {
		t.Errorf("not another cluster: %d pods at %s", len(s.List(podsGVR)), s.RV())
	}
}

func kubeSystemUID(t *testing.T, s *Server) string {
	t.Helper()
	for _, ns := range s.List(namespacesGVR) {
		if ns.GetName() == metav1.NamespaceSystem {
			return string(ns.GetUID())
		}
	}
	t.Fatal("no kube-system")
	return ""
}
