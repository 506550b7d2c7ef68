package fakeapi

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

var contentTypes = []string{contentJSON, contentProtobuf}

func TestTypedClientListsAndWatches(t *testing.T) {
	for _, contentType := range contentTypes {
		t.Run(contentType, func(t *testing.T) {
			s := start(t, Options{})
			load(t, s, 3)
			ctx := testContext(t)
			pods := typed(t, s, contentType).CoreV1().Pods("default")
			list, err := pods.List(ctx, metav1.ListOptions{})
			must(t, err)
			if len(list.Items) != 3 || list.ResourceVersion != s.RV() || list.Items[1].Name != "pod-00001" {
				t.Fatalf("listed %d pods at %s, the server is at %s", len(list.Items), list.ResourceVersion, s.RV())
			}
			if got := list.Items[2]; got.Spec.Containers[0].Image != "image:1" || got.UID == "" ||
				got.CreationTimestamp.IsZero() {
				t.Errorf("the third pod lacks something: %v", got)
			}
			w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			must(t, err)
			defer w.Stop()
			must(t, s.Load(podsGVR, pod("default", "new", nil), pod("other", "new", nil)))
			changed := pod("default", "new", map[string]string{"a": "b"})
			updated, err := s.Update(podsGVR, changed)
			must(t, err)
			must(t, s.Delete(podsGVR, "default", "new"))
			for i, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				e := <-w.ResultChan()
				if m, ok := e.Object.(metav1.Object); !ok || e.Type != want || m.GetName() != "new" {
					t.Fatalf("event %d: %v of %T", i, e.Type, e.Object)
				} else if want == watch.Modified && m.GetResourceVersion() != updated.GetResourceVersion() {
					t.Errorf("modified at %s, not %s", m.GetResourceVersion(), updated.GetResourceVersion())
				} else if want == watch.Deleted && m.GetResourceVersion() != s.RV() {
					t.Errorf("deleted at %s, not %s", m.GetResourceVersion(), s.RV())
				}
			}
			c := s.Counts(podsGVR)
			if c.Lists != 1 || c.Watches != 1 || c.ListedObjects != 3 || c.BytesSent == 0 {
				t.Errorf("counts: %+v", c)
			}
			w.Stop()
			s.Stop() // ends the watch now, so that its end is not counted after ResetCounts
			s.ResetCounts()
			if c := s.Counts(podsGVR); c != (Counts{}) || len(s.Requests()) > 0 {
				t.Errorf("after ResetCounts: %+v, %v", c, s.Requests())
			}
		})
	}
}

func TestStopAndStart(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 2)
	ctx := testContext(t)
	pods := typed(t, s, contentJSON).CoreV1().Pods("")
	host := s.Config().Host
	before, err := pods.List(ctx, metav1.ListOptions{})
	must(t, err)
	s.Stop()
	if _, err := pods.List(ctx, metav1.ListOptions{}); err == nil {
		t.Fatal("a stopped server answered")
	}
	must(t, s.Start())
	if s.Config().Host != host {
		t.Errorf("came back at %s, not %s", s.Config().Host, host)
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	must(t, err)
	w.Stop()
	must(t, s.Load(configMapsGVR, newConfigMap("default", "moves-the-counter")))
	must(t, s.Restart())
	w, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	must(t, err)
	defer w.Stop()
	e := <-w.ResultChan()
	if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Fatalf("after a restart: %v %v", e.Type, err)
	} else if want := "too old resource version: " + before.ResourceVersion + " (" + s.RV() + ")"; err.Error() != want {
		t.Errorf("said %q, not %q", err, want)
	}
}
