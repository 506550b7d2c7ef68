package factory

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestMissing checks a fake clientset's missing REST client, as a nil interface and as a nil pointer.
func TestMissing(t *testing.T) {
	faked := fake.NewClientset()
	_, c := startServer(t, fakeapi.Options{})
	if !missing(nil) || !missing(faked.Discovery().RESTClient()) || !missing(faked.CoreV1().RESTClient()) {
		t.Error("a fake's REST client would be used")
	}
	if missing(c.typed.Discovery().RESTClient()) || schemas(c.typed.CoreV1().RESTClient()) == nil {
		t.Error("a REST client would not be used")
	}
}

// TestOwnClusterID checks that a factory with informer.Options.ClusterID does not read the namespace kube-system.
func TestOwnClusterID(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	for _, fl := range flavors {
		o := on(t, st)
		o.Informer.ClusterID = func(context.Context) (string, error) { return "own", nil }
		f := fl.ours(t, c, o)
		reg, stop := f.start(t, pods, &recorder{})
		f.waitSynced(t, reg)
		stop()
	}
	for _, form := range []entry.Representation{entry.Typed, entry.Unstructured, entry.Metadata} {
		info := collection(t, st, func(id entry.Identity) bool { return id.Representation == form })
		if info.Attributes.ClusterID != "own" {
			t.Errorf("%s: %+v", form, info.Attributes)
		}
	}
	if n := s.Counts(namespaces).Gets; n != 0 {
		t.Errorf("%d namespaces were read", n)
	}
}
