package discovery

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/internal/discovery"
)

const (
	asJSON       = runtime.ContentTypeJSON
	asYAML       = runtime.ContentTypeYAML
	asProtobuf   = runtime.ContentTypeProtobuf
	asAggregated = asJSON + aggregated
	aggregated   = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

func paths(of []discovery.Resource) []string {
	all := []string{"/api", "/apis"}
	for _, r := range of {
		group, version := "/apis/"+r.Group, "/apis/"+r.Group+"/"+r.Version
		if r.Group == "" {
			group, version = "/api", "/api/"+r.Version
		}
		for _, path := range []string{group, version} {
			if !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	return all
}

// TestDocuments checks that each discovery document of mirrored resources equals the server's, except for the
// differences that package internal/discovery documents.
func TestDocuments(t *testing.T) {
	all := mirrored(t)
	h := handler(t, all, learn(t, all))
	for _, path := range paths(all) {
		for _, accept := range []string{asJSON, asYAML, asProtobuf, asAggregated, asProtobuf + aggregated, "text/html",
			asJSON + strings.Replace(aggregated, "v2", "v2beta1", 1)} {
			want, got := upstream(t, path, accept), ours(t, h, path, accept)
			if want.code != got.code {
				t.Errorf("%s %s: %d, the server says %d", path, accept, got.code, want.code)
				continue
			}
			for _, name := range []string{"Content-Type", "Cache-Control", "Vary"} {
				if want.header.Get(name) != got.header.Get(name) {
					t.Errorf("%s %s: %s: %q, the server has %q", path, accept, name, got.header.Get(name), want.header.Get(name))
				}
			}
			if (want.header.Get("ETag") == "") != (got.header.Get("ETag") == "") {
				t.Errorf("%s %s: ETag: %q, the server has %q", path, accept, got.header.Get("ETag"), want.header.Get("ETag"))
			}
			if want.code != http.StatusOK {
				continue
			}
			if d := cmp.Diff(read(t, want, path, accept, true), read(t, got, path, accept, false)); d != "" {
				t.Errorf("%s %s (- server, + ours):\n%s", path, accept, d)
			}
		}
	}
}

func TestNotThere(t *testing.T) {
	all := mirrored(t)
	h := handler(t, all, learn(t, all))
	for _, path := range []string{"/apis/nope", "/apis/nope/v1", "/apis/apps/v9", "/api/v9", "/openapi/v3/apis/nope/v1"} {
		want, got := upstream(t, path, asJSON), ours(t, h, path, asJSON)
		if want.code != got.code || len(want.body) > 0 && (strings.TrimSpace(string(want.body)) != string(got.body) &&
			string(want.body) != string(got.body) || want.header.Get("Content-Type") != got.header.Get("Content-Type")) {
			t.Errorf("%s: %d %v\n%s\nthe server says %d %v\n%s", path, got.code, got.header, got.body, want.code, want.header,
				want.body)
		}
	}
}

// read decodes a discovery document into JSON values. If servers is true the document is the API server's, and only
// mirrored resources are kept.
func read(t *testing.T, a answer, path, accept string, servers bool) any {
	t.Helper()
	data := a.body
	var err error
	switch {
	case accept == asYAML:
		data, err = yaml.YAMLToJSON(data)
	case strings.HasPrefix(accept, asProtobuf):
		data, err = toJSON(data, path, strings.Contains(accept, aggregated))
	}
	var document map[string]any
	if err == nil {
		err = json.Unmarshal(data, &document)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", path, accept, err)
	}
	normalize(document, servers)
	return document
}

func toJSON(data []byte, path string, isAggregated bool) ([]byte, error) {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(data[4:]); err != nil {
		return nil, err
	}
	var into interface {
		runtime.Object
		Unmarshal([]byte) error
	}
	switch parts := strings.Count(path, "/"); {
	case isAggregated:
		into = &apidiscoveryv2.APIGroupDiscoveryList{}
	case path == "/api":
		into = &metav1.APIVersions{}
	case path == "/apis":
		into = &metav1.APIGroupList{}
	case parts == 2 && strings.HasPrefix(path, "/apis/"):
		into = &metav1.APIGroup{}
	default:
		into = &metav1.APIResourceList{}
	}
	if err := into.Unmarshal(unknown.Raw); err != nil {
		return nil, err
	}
	text, err := json.Marshal(into)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	object["kind"], object["apiVersion"] = unknown.Kind, unknown.APIVersion
	return json.Marshal(object)
}

// normalize removes the documented differences between Larder's discovery and the API server's. From the API server's
// document it also removes resources that are not mirrored.
func normalize(document map[string]any, servers bool) {
	for _, a := range list(document, "serverAddressByClientCIDRs") {
		a["serverAddress"] = "of the server" // the value differs between the servers by design
	}
	if !servers {
		return
	}
	resources := func(of map[string]any, field, name string) {
		of[field] = slices.DeleteFunc(of[field].([]any), func(r any) bool {
			object := r.(map[string]any)
			var verbs []string
			for _, v := range object["verbs"].([]any) {
				verbs = append(verbs, v.(string))
			}
			delete(object, "storageVersionHash")
			delete(object, "subresources")
			object["verbs"] = []any{"get", "list", "watch"}
			return !isMirrored(object[name].(string), verbs)
		})
	}
	if document["kind"] == "APIResourceList" {
		resources(document, "resources", "name")
	}
	for _, item := range list(document, "items") {
		for _, v := range list(item, "versions") {
			resources(v, "resources", "resource")
		}
		item["versions"] = slices.DeleteFunc(item["versions"].([]any), func(v any) bool {
			return len(v.(map[string]any)["resources"].([]any)) == 0
		})
	}
	if items, ok := document["items"].([]any); ok {
		document["items"] = slices.DeleteFunc(items, func(g any) bool {
			return len(g.(map[string]any)["versions"].([]any)) == 0
		})
	}
	if groups, ok := document["groups"].([]any); ok {
		document["groups"] = slices.DeleteFunc(groups, func(g any) bool {
			// The groups for authentication and authorization have no resources that can be mirrored.
			name := g.(map[string]any)["name"]
			return name == "authentication.k8s.io" || name == "authorization.k8s.io"
		})
	}
}

func list(of map[string]any, field string) (all []map[string]any) {
	items, _ := of[field].([]any)
	for _, i := range items {
		all = append(all, i.(map[string]any))
	}
	return all
}

func TestPart(t *testing.T) {
	all := slices.DeleteFunc(mirrored(t), func(r discovery.Resource) bool {
		return r.Group != "batch" && r.Group != "example.com" && r.Group != "a.example.org" && r.Resource != "pods"
	})
	slices.Reverse(all)
	h := handler(t, all, learn(t, all))
	want := upstream(t, "/apis", asAggregated)
	document := read(t, want, "/apis", asAggregated, true).(map[string]any)
	document["items"] = slices.DeleteFunc(document["items"].([]any), func(g any) bool {
		name := g.(map[string]any)["metadata"].(map[string]any)["name"]
		return name != "batch" && name != "example.com" && name != "a.example.org"
	})
	if d := cmp.Diff(any(document), read(t, ours(t, h, "/apis", asAggregated), "/apis", asAggregated, false)); d != "" {
		t.Errorf("/apis (- server, + ours):\n%s", d)
	}
	for _, path := range []string{"/apis/apps", "/apis/apps/v1", "/openapi/v3/apis/apps/v1"} {
		if got := ours(t, h, path, asJSON); got.code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.code)
		}
	}
}

func TestVersion(t *testing.T) {
	all := mirrored(t)
	h := handler(t, all, learn(t, all))
	for _, accept := range []string{asJSON, "", "*/*", asYAML} {
		want, got := upstream(t, "/version", accept), ours(t, h, "/version", accept)
		if want.code != got.code || want.code == http.StatusOK && string(want.body) != string(got.body) {
			t.Errorf("%q: %d\n%s\nthe server says %d\n%s", accept, got.code, got.body, want.code, want.body)
		}
	}
}

// TestSchemas checks that the OpenAPI index has the server's URLs, and that the schemas equal the server's, byte for
// byte.
func TestSchemas(t *testing.T) {
	all := mirrored(t)
	stored := learn(t, all)
	h := handler(t, all, stored)
	received, kept := 0, 0
	type index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	var want, got index
	if err := json.Unmarshal(upstream(t, "/openapi/v3", asJSON).body, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(ours(t, h, "/openapi/v3", asJSON).body, &got); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		path := strings.TrimPrefix(strings.Replace("/apis/"+r.Group+"/"+r.Version, "/apis//", "/api/", 1), "/")
		if got.Paths[path] != want.Paths[path] || got.Paths[path].ServerRelativeURL == "" {
			t.Errorf("%s: %v, the server has %v", path, got.Paths[path], want.Paths[path])
		}
	}
	for path, at := range got.Paths {
		want, got := upstream(t, at.ServerRelativeURL, asJSON), ours(t, h, at.ServerRelativeURL, asJSON)
		received, kept = received+len(want.body), kept+len(stored["openapi/"+path])
		if got.code != http.StatusOK || string(got.body) != string(want.body) {
			t.Errorf("%s: %d, %d bytes, the server says %d, %d bytes", path, got.code, len(got.body), want.code, len(want.body))
		}
		for _, name := range []string{"Content-Type", "ETag", "Cache-Control", "Vary"} {
			if want.header.Get(name) != got.header.Get(name) {
				t.Errorf("%s: %s: %q, the server has %q", path, name, got.header.Get(name), want.header.Get(name))
			}
		}
	}
	t.Logf("%d schemas: %d bytes come from the server, %d are stored", len(got.Paths), received, kept)
}
