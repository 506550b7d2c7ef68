package requests_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

// TestMetadataOfNoList checks that an answer that is no list is an error, not an empty list, and that the error names
// the answer's kind and the request. Issue 38.
func TestMetadataOfNoList(t *testing.T) {
	body := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}))
	defer api.Close()
	config := dynamic.ConfigFor(&rest.Config{Host: api.URL})
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Client.CloseIdleConnections()
	list := requests.ListMetadata(client, entry.Identity{
		GroupVersionResource: schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "widgets"},
	})
	for _, tt := range []struct {
		body  string
		items int
		err   string
	}{
		{`{"kind":"Table","metadata":{"resourceVersion":"9"},"rows":[]}`, 0, `"Table"`},
		{`{"kind":"WidgetList","metadata":{"resourceVersion":"9"}}`, 0, "GET /apis/g/v1/widgets"},
		{`{"kind":"WidgetSet","metadata":{"resourceVersion":"9"},"items":[]}`, 0, ""},
		{`{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":null}`, 0, ""},
		{`{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":{}}`, 0, "GET /apis/g/v1/widgets"},
		{`{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}}]}`, 1, ""},
		{`{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":[
			{"metadata":{"name":"a","creationTimestamp":""}},{"metadata":5},{"metadata":{"name":"b"}}]}`, 2, ""},
	} {
		body = tt.body
		got, err := list(t.Context(), metav1.ListOptions{})
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", body, err, tt.err)
			}
		case err != nil || len(got.Items) != tt.items || got.ResourceVersion != "9":
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}
