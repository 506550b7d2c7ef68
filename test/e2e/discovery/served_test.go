package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

var reads = []string{"get", "list", "watch"}

// definitions are two groups of custom resources: one whose version priority differs from the alphabetical order, and
// one with a single version.
const definitions = `[
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
 "metadata": {"name": "gadgets.example.com"},
 "spec": {"group": "example.com", "scope": "Namespaced",
  "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all", "gear"]},
  "versions": [
   {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "description": "A gadget.",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How large."}}}}}}},
   {"name": "v2alpha1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
   {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]}},
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
 "metadata": {"name": "plains.a.example.org"},
 "spec": {"group": "a.example.org", "scope": "Cluster", "names": {"plural": "plains", "singular": "plain", "kind": "Plain"},
  "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}]`

var prepare = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config := server.Config(controlplane.Writer)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(definitions), &all); err != nil {
		return err
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for _, d := range all {
		if _, err := client.Resource(crds).Create(ctx, &unstructured.Unstructured{Object: d}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	d, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	has := func() bool {
		index, err := d.RESTClient().Get().AbsPath("/openapi/v3").Do(ctx).Raw()
		apis, errAPIs := d.RESTClient().Get().AbsPath("/apis").SetHeader("Accept", asAggregated).Do(ctx).Raw()
		for _, text := range [][]byte{index, apis} {
			if !bytes.Contains(text, []byte("example.com")) || !bytes.Contains(text, []byte("a.example.org")) ||
				!bytes.Contains(text, []byte("v2alpha1")) {
				return false
			}
		}
		return err == nil && errAPIs == nil
	}
	for !has() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
})

// mirrored returns all resources of the server that can be mirrored, in the form in which a mirror stores them.
func mirrored(t *testing.T) []discovery.Resource {
	t.Helper()
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	client, err := clientdiscovery.NewDiscoveryClientForConfig(server.Config("mirror"))
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []discovery.Resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !isMirrored(r.Name, r.Verbs) {
				continue
			}
			all = append(all, discovery.Resource{GroupVersionResource: gv.WithResource(r.Name), Verbs: reads,
				ResourceInfo: entry.ResourceInfo{Kind: r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames,
					Namespaced: r.Namespaced, Categories: r.Categories}})
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d resources", len(all))
	}
	return all
}

func isMirrored(name string, verbs []string) bool {
	return !strings.Contains(name, "/") && slices.Contains(verbs, "list") && slices.Contains(verbs, "watch")
}

// learn reads the server's discovery data and schemas into memory, like a mirror of the resources.
func learn(t *testing.T, of []discovery.Resource) facts.Memory {
	t.Helper()
	client, err := clientdiscovery.NewDiscoveryClientForConfig(server.Config("mirror"))
	if err != nil {
		t.Fatal(err)
	}
	ask := facts.Ask{Client: client.RESTClient(), Schemas: true}
	for _, r := range of {
		if !slices.Contains(ask.Of, r.GroupVersion()) {
			ask.Of = append(ask.Of, r.GroupVersion())
		}
	}
	m := facts.Memory{}
	if err := facts.Refresh(t.Context(), m, ask); err != nil {
		t.Fatal(err)
	}
	return m
}

func handler(t *testing.T, of []discovery.Resource, stored facts.Documents) *discovery.Handler {
	t.Helper()
	known, err := facts.Read(t.Context(), stored)
	if err != nil {
		t.Fatal(err)
	}
	return discovery.New(of, discovery.Options{Server: known,
		OpenAPI: func(ctx context.Context, gv schema.GroupVersion) ([]byte, string, error) {
			return facts.OpenAPI(ctx, stored, gv, nil)
		}})
}

type answer struct {
	code   int
	header http.Header
	body   []byte
}

func upstream(t *testing.T, path, accept string) answer {
	t.Helper()
	config := server.Config("e2e")
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, got)
}

func ours(t *testing.T, h http.Handler, path, accept string) answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answerOf(t, w.Result())
}

func answerOf(t *testing.T, r *http.Response) answer {
	t.Helper()
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{r.StatusCode, r.Header, data}
}
