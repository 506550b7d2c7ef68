package factory

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestMetadataThatDoNotFit cites kubernetes#91582 and issue 38: the first listed object of an aggregated API has
// metadata that do not fit ObjectMeta. Then probes always failed, an informer received nothing after a lost connection,
// and a restart did not sync.
func TestMetadataThatDoNotFit(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget := func(name, value string, more map[string]any) *unstructured.Unstructured {
		metadata := map[string]any{"namespace": "a", "name": name, "labels": map[string]any{"value": value}}
		for k, v := range more {
			metadata[k] = v
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata,
		}}
	}
	odd := map[string]map[string]any{
		"creationTimestamp": {"creationTimestamp": ""},
		"several": {"creationTimestamp": "yesterday", "generation": "one", "annotations": []any{"a"},
			"ownerReferences": map[string]any{}, "finalizers": "none"},
	}
	for what, metadata := range odd {
		for _, fl := range []flavor{dynamicFlavor, metadataFlavor} {
			t.Run(what+" "+fl.name, func(t *testing.T) {
				s, c := startServer(t, fakeapi.Options{Resources: []fakeapi.Resource{{
					GroupVersionResource: widgets, Kind: "Widget", Singular: "widget", Namespaced: true, AsWritten: true,
				}}})
				must(t, s.Load(widgets, widget("0", "x", metadata), widget("1", "x", nil), widget("2", "x", nil)))
				want := []string{"a/0=x", "a/1=4", "a/2=x"}
				if fl.name == "metadata" {
					want = want[1:] // the object is not stored, since its metadata cannot be decoded
				}
				dir := t.TempDir()
				change := func(value string) {
					_, err := s.Update(widgets, widget("1", value, nil))
					must(t, err)
				}
				for n := range 2 {
					st := openStore(t, dir)
					o := on(t, st)
					o.Config = s.Config()
					f := fl.ours(t, c, o)
					h := &recorder{}
					reg, stop := f.start(t, widgets, h)
					f.waitSynced(t, reg)
					s.Stop()
					must(t, s.Start())
					change([]string{"2", "4"}[n])
					waitFor(t, h, "a/1="+[]string{"2", "4"}[n])
					if i, ok := f.informer(widgets).(interface{ Status() informer.Status }); ok && fl.name == "metadata" {
						if status := i.Status(); len(status.LeftOut) != 1 || status.LeftOut[0].Key != "a/0" {
							t.Errorf("status %+v", status)
						}
					}
					if n == 1 {
						equal(t, "listed", f.listed(t, widgets), want)
					}
					stop()
					closeStore(t, st)
					change("3")
				}
				if got := s.Counts(widgets); got.Lists != 1 && fl.name == "dynamic" {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// waitFor waits until a call of the handler passes an object in the given state, such as a/1=x.
func waitFor(t *testing.T, h *recorder, object string) {
	t.Helper()
	ctx := testContext(t)
	for !strings.Contains(strings.Join(h.take(), "\n"), object) {
		select {
		case <-ctx.Done():
			t.Fatalf("%s has not come", object)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
