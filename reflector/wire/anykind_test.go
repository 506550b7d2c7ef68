package wire_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/reflector/wire"
)

// TestListOfAnyKind checks that an answer with items is a list, whatever its kind: a custom resource may have a
// listKind that does not end in List. An empty list may have null as its items. Issue 38.
func TestListOfAnyKind(t *testing.T) {
	for name, tt := range map[string]struct {
		body  string
		items int
	}{
		"a kind of its own": {`{"kind":"GadgetSet","apiVersion":"g/v1","metadata":{"resourceVersion":"9"},"items":[
			{"kind":"Gadget","apiVersion":"g/v1","metadata":{"name":"a","uid":"u","resourceVersion":"5"}}]}`, 1},
		"kind behind the items": {`{"metadata":{"resourceVersion":"9"},"items":[
			{"kind":"Gadget","apiVersion":"g/v1","metadata":{"name":"a"}}],"kind":"GadgetSet","apiVersion":"g/v1"}`, 1},
		"an empty one": {`{"kind":"GadgetSet","apiVersion":"g/v1","metadata":{"resourceVersion":"9"},"items":[]}`, 0},
		"null":         {`{"kind":"GadgetList","apiVersion":"g/v1","metadata":{"resourceVersion":"9"},"items":null}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answer{contentType: "application/json", body: []byte(tt.body)}
			got, err := a.listWatch(t, &unstructured.Unstructured{}).ListWithContext(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if l := got.(*wire.List); len(l.Items) != tt.items || l.ResourceVersion != "9" {
				t.Errorf("%+v", l)
			}
		})
	}
}
