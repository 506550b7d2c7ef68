package fakeapi

import (
	"strings"
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
		generated, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"}},
			metav1.CreateOptions{})
		must(t, err)
		if len(generated.Name) < 5 || !strings.HasPrefix(generated.Name, "g-") {
			t.Errorf("generated %q", generated.Name)
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

		if _, err := pods.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); !errors.IsConflict(err) {
			t.Errorf("a status update of an old state: %v", err)
		}
		status := updated.DeepCopy()
		status.Labels, status.Status.Phase = nil, corev1.PodRunning
		after, err := pods.UpdateStatus(ctx, status, metav1.UpdateOptions{})
		must(t, err)
		if after.Status.Phase != corev1.PodRunning || after.Labels["a"] != "b" {
			t.Errorf("after a status update: %v %v", after.Status.Phase, after.Labels)
		}

		for patchType, patch := range map[types.PatchType]string{
			types.MergePatchType:          `{"metadata":{"labels":{"a":null,"merge":"yes"}}}`,
			types.StrategicMergePatchType: `{"metadata":{"labels":{"strategic":"yes"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		} {
			patched, err := pods.Patch(ctx, "a", patchType, []byte(patch), metav1.PatchOptions{})
			must(t, err)
			if _, found := patched.Labels["a"]; found && patchType == types.MergePatchType || patched.ResourceVersion != s.RV() {
				t.Errorf("%s: %+v", patchType, patched.ObjectMeta)
			}
		}
		if _, err := pods.Patch(ctx, "a", types.ApplyPatchType, []byte(`{}`),
			metav1.PatchOptions{FieldManager: "me"}); !errors.IsUnsupportedMediaType(err) {
			t.Errorf("apply: %v", err)
		}
		got, err := pods.Get(ctx, "a", metav1.GetOptions{})
		must(t, err)
		if got.Labels["merge"] != "yes" || got.Labels["strategic"] != "yes" || len(got.Spec.Containers) != 1 {
			t.Errorf("after both patches: %v", got)
		}

		wrong := types.UID("wrong")
		if err := pods.Delete(ctx, "a",
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !errors.IsConflict(err) {
			t.Errorf("deleted in spite of the UID: %v", err)
		}
		must(t, pods.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &got.UID}}))
		if _, err := pods.Get(ctx, "a", metav1.GetOptions{}); !errors.IsNotFound(err) {
			t.Errorf("after the deletion: %v", err)
		}
		must(t, s.Load(podsGVR, pod("other", "stays", nil), pod("default", "goes", map[string]string{"go": "yes"}),
			pod("default", "stays", nil)))
		must(t, pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "go"}))
		if left := s.List(podsGVR); len(left) != 3 {
			t.Errorf("%d pods left, not 3", len(left))
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s := start(t, Options{})
	for path, want := range map[string]int{
		"/": 404, "/api": 200, "/api/v2": 404, "/apis/none.example.com/v1": 404, "/api/v1/gizmos": 404,
		"/api/v1/pods/a/b":           404,
		"/api/v1/namespaces/x/nodes": 404, "/api/v1/namespaces/x/pods/none": 404, "/readyz": 200, "/apis/apps": 200,
		"/api/v1/nodes/none/status": 404, "/openapi/v3/api/v1": 200, "/openapi/v2": 404, "/apis": 200,
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

// An object given to the server stays the caller's.
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
