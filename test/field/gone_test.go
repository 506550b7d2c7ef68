package field

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestResourceIsGone covers rancher#35054: an informer must survive the deletion of its CustomResourceDefinition, and
// deliver the missed changes when the definition exists again.
func TestResourceIsGone(t *testing.T) {
	api := startFake(t)
	w := NewWorld(t, api)
	w.create(pod("a", "x", "1", ""))
	r := w.start(nil)
	w.delete("a", "x")
	r.saw("delete a/x=1")
	w.create(pod("a", "y", "1", ""))
	r.saw("add a/y=1")
	api.SetServed(pods, false)
	api.BreakWatches(pods, fakeapi.BreakEOF)
	refused := len(w.proxy.asked()) + 3
	w.eventually(func() bool {
		if r.Status().Reflector.ListOnly {
			w.Fatalf("status says that the resource is listed: %v", r.Status().Err)
		}
		return len(w.proxy.asked()) >= refused
	}, func() string { return "the watch is not tried again" })
	if err := r.Status().Err; !apierrors.IsNotFound(err) {
		w.Errorf("status says %v", err)
	}
	w.must(api.Delete(pods, "a", "y"))
	_, err := api.Create(pods, pod("a", "z", "1", ""))
	w.must(err)
	api.Compact()
	api.SetServed(pods, true)
	r.saw("delete a/y=1")
	r.saw("add a/z=1")
}
