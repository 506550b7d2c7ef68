package requests_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer/requests"
)

func testClient(t *testing.T, h http.HandlerFunc) rest.Interface {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := rest.RESTClientFor(&rest.Config{
		Host: srv.URL, APIPath: "/api", Transport: transport,
		ContentConfig: rest.ContentConfig{
			GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs,
			ContentType: "application/vnd.kubernetes.protobuf",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKubeSystemUID(t *testing.T) {
	c := testClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/kube-system" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		if a := r.Header.Get(
			"Accept"); a[:len("application/json;as=PartialObjectMetadata")] != "application/json;as=PartialObjectMetadata" {
			t.Errorf("Accept: %s", a)
		}
		fmt.Fprint(w,
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"kube-system","uid":"the-uid"}}`)
	})
	if id, err := requests.KubeSystemUID(c)(t.Context()); id != "the-uid" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}

// TestKubeSystemUIDOffline checks that the error names the request, and only once.
func TestKubeSystemUIDOffline(t *testing.T) {
	t.Parallel() // the client retries for ten seconds
	c := testClient(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := requests.KubeSystemUID(c)(t.Context())
	if err == nil || strings.Count(err.Error(), "kube-system") != 1 || strings.Contains(err.Error(), ": :") {
		t.Errorf("%v", err)
	}
}

func TestKubeSystemUIDForbidden(t *testing.T) {
	c := testClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		err := json.NewEncoder(w).Encode(&metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonForbidden,
			Code: 403,
		})
		if err != nil {
			t.Error(err)
		}
	})
	if _, err := requests.KubeSystemUID(c)(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

func TestOpenAPIHashOf(t *testing.T) {
	c := testClient(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"paths":{
			"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=CORE"},
			"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=APPS"}}}`)
	})
	for gv, want := range map[schema.GroupVersion]string{
		{Version: "v1"}: "CORE", {Group: "apps", Version: "v1"}: "APPS", {Group: "none", Version: "v1"}: "",
	} {
		if hash, err := requests.OpenAPIHash(c, gv)(t.Context()); hash != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", gv, hash, err, want)
		}
	}
}
