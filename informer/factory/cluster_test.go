package factory

import (
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestMissing: the fakes have no REST client, and say so in two ways.
func TestMissing(t *testing.T) {
	faked := fake.NewClientset()
	_, c := startServer(t, fakeapi.Options{})
	if !missing(nil) || !missing(faked.Discovery().RESTClient()) || !missing(faked.CoreV1().RESTClient()) {
		t.Error("a fake's REST client would be used")
	}
	if missing(c.typed.Discovery().RESTClient()) || openAPIHash(c.typed.CoreV1().RESTClient(), pods.GroupVersion()) == nil {
		t.Error("a REST client would not be used")
	}
}
