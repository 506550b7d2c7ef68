package fakeapi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestTypedWrites(t *testing.T) {
	for _, contentType := range contentTypes {
		s := start(t, Options{})
		ctx := testContext(t)
		pods := typed(t, s, contentType).CoreV1().Pods("default")
		created, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		must(t, err)
		if created.Namespace != "default" || created.UID == "" || created.ResourceVersion != s.RV() {
			t.Errorf("created %+v", created.ObjectMeta)
		}
		if _, err := pods.Create(ctx, created.DeepCopy(), metav1.CreateOptions{}); !errors.IsAlreadyExists(err) {
			t.Errorf("created twice: %v", err)
		}
		if _, err := pods.Create(ctx, pod("elsewhere", "b", nil), metav1.CreateOptions{}); err == nil {
			t.Error("a pod was created in a namespace that is not the request's")
		}

		changed := created.DeepCopy()
		changed.Labels = map[string]string{"a": "b"}
		updated, err := pods.Update(ctx, changed, metav1.UpdateOptions{})
		must(t, err)
		if updated.UID != created.UID || !updated.CreationTimestamp.Equal(&created.CreationTimestamp) ||
			updated.ResourceVersion != s.RV() || updated.Labels["a"] != "b" {
			t.Errorf("updated %+v", updated.ObjectMeta)
		}
		if _, err := pods.Update(ctx, changed, metav1.UpdateOptions{}); !errors.IsConflict(err) {
			t.Errorf("an update of an old state: %v", err)
		}
		same, err := pods.Update(ctx, updated, metav1.UpdateOptions{})
		must(t, err)
		if same.ResourceVersion != updated.ResourceVersion {
			t.Error("an update that changes nothing has changed the resourceVersion")
		}

		merge := func(patch string) (*corev1.Pod, error) {
			return pods.Patch(ctx, "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
		patched, err := merge(`{"metadata":{"labels":{"a":null,"merge":"yes"}}}`)
		must(t, err)
		if _, found := patched.Labels["a"]; found || patched.ResourceVersion != s.RV() {
			t.Errorf("patched %+v", patched.ObjectMeta)
		}
		if _, err := merge(`{"metadata":{"resourceVersion":"` + updated.ResourceVersion + `"}}`); !errors.IsConflict(err) {
			t.Errorf("a patch of an old state: %v", err)
		}
		if _, err := pods.Patch(ctx, "a", types.ApplyPatchType, []byte(`{}`),
			metav1.PatchOptions{FieldManager: "me"}); !errors.IsUnsupportedMediaType(err) {
			t.Errorf("apply: %v", err)
		}
		got, err := pods.Get(ctx, "a", metav1.GetOptions{})
		must(t, err)
		if got.Labels["merge"] != "yes" || got.Labels["a"] != "" {
			t.Errorf("after the patches: %v", got)
		}

		must(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
		if _, err := pods.Get(ctx, "a", metav1.GetOptions{}); !errors.IsNotFound(err) {
			t.Errorf("after the deletion: %v", err)
		}
		must(t, s.Load(podsGVR, pod("other", "stays", nil), pod("default", "goes", map[string]string{"go": "yes"}),
			pod("default", "stays", nil)))
		must(t, pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "go"}))
		if left := s.List(podsGVR); len(left) != 2 {
			t.Errorf("%d pods left, not 2", len(left))
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := start(t, Options{})
	for path, want := range map[string]int{
		"/": 404, "/api": 200, "/api/v2": 404, "/apis/none.example.com/v1": 404, "/api/v1/gizmos": 404,
		"/api/v1/pods/a/b":           404,
		"/api/v1/namespaces/x/nodes": 404, "/api/v1/namespaces/x/pods/none": 404, "/readyz": 200, "/apis/apps": 200,
		"/api/v1/nodes/none/status": 404, "/openapi/v3": 200, "/openapi/v2": 404, "/apis": 200,
		"/api/v1/namespaces/default": 200,
	} {
		if response, body := get(t, s, path, nil); response.StatusCode != want {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
	}
	if response, _ := get(t, s, "/api/v1/pods",
		map[string][]string{"Accept": {"text/plain"}}); response.StatusCode != 406 {
		t.Errorf("text/plain: %d", response.StatusCode)
	}
}

// TestWritesCopy checks that the server does not modify a caller's objects.
func TestWritesCopy(t *testing.T) {
	s := New(Options{Resources: []Resource{widgets}})
	mine := pod("default", "a", map[string]string{"a": "b"})
	w := widget("default", "a")
	must(t, s.Load(podsGVR, mine))
	must(t, s.Load(widgets.GroupVersionResource, w))
	if mine.UID != "" || mine.ResourceVersion != "" || w.GetUID() != "" || w.GetResourceVersion() != "" {
		t.Error("the caller's object was stamped")
	}
	mine.Labels["a"] = "changed"
	if got := s.List(podsGVR)[0].GetLabels()["a"]; got != "b" {
		t.Errorf("the stored label is %q", got)
	}
	if stored := s.tables[podsGVR].objects["default/a"]; stored.labels["a"] != "b" {
		t.Errorf("the label that selectors see is %q", stored.labels["a"])
	}
	mine.Labels["a"] = "b"
	rv := s.RV()
	if u, err := s.Update(podsGVR, mine); err != nil || u.GetResourceVersion() != "1002" || s.RV() != rv {
		t.Errorf("an update that changes nothing: %v at %s", err, s.RV())
	}
	if err := s.Replace(podsGVR, mine); err != nil || s.RV() != rv {
		t.Errorf("a replacement that changes nothing: %v at %s", err, s.RV())
	}
	mine.Labels["a"] = "c"
	if err := s.Replace(podsGVR, mine); err != nil || s.RV() == rv || s.List(podsGVR)[0].GetLabels()["a"] != "c" {
		t.Errorf("a replacement: %v at %s", err, s.RV())
	}
	mine.Name = "missing"
	if err := s.Replace(podsGVR, mine); !errors.IsNotFound(err) {
		t.Errorf("a replacement of nothing: %v", err)
	}
}
