package informer_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// loudBoat is boat in a later version of its Go module. This type decodes colors to upper case.
type loudBoat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Color loudColor `json:"color,omitempty"`
	} `json:"spec"`
}

func (b *loudBoat) DeepCopyObject() runtime.Object { c := *b; return &c }

type loudColor string

func (s *loudColor) UnmarshalJSON(data []byte) error {
	err := json.Unmarshal(data, (*string)(s))
	*s = loudColor(strings.ToUpper(string(*s)))
	return err
}

func colorOf(obj any) ([]string, error) {
	switch b := obj.(type) {
	case *boat:
		return []string{string(b.Spec.Color)}, nil
	case *loudBoat:
		return []string{string(b.Spec.Color)}, nil
	}
	return nil, nil
}

// TestIndexOverAnUpgradeOfTheTypes cites issue 37: the Go types change, but the stored bytes, the index function and
// its version do not. The index must match the objects as the new types decode them.
func TestIndexOverAnUpgradeOfTheTypes(t *testing.T) {
	for name, residency := range map[string]store.Residency{"All": store.All, "None": store.None} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := newHarbor(t)
				h.srv.write("a", `{"color":"red"}`)
				run := func(example runtime.Object, found map[string]int) {
					config := &rest.Config{Host: "http://server", Transport: h.srv}
					config.APIPath, config.GroupVersion = "/apis", &schema.GroupVersion{Group: "sea", Version: "v1"}
					config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
					client := value(rest.RESTClientFor(config))(t)
					o := h.o
					o.Store, o.Residency = value(store.Open(h.path, store.Options{}))(t), residency
					o.Indexers, o.IndexVersions = cache.Indexers{"color": colorOf}, map[string]string{"color": "1"}
					i := value(informer.New(requests.ListWatch(client, o.Identity), example, o))(t)
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() { defer close(done); i.RunWithContext(ctx) }()
					time.Sleep(time.Hour)
					synctest.Wait()
					for color, want := range found {
						objs, err := i.GetIndexer().ByIndex("color", color)
						if err != nil || len(objs) != want {
							t.Errorf("%T: %d boats are %s, want %d; %v", example, len(objs), color, want, err)
						}
					}
					cancel()
					<-done
					if err := o.Store.Close(); err != nil {
						t.Error(err)
					}
				}
				run(&boat{}, map[string]int{"red": 1, "RED": 0})
				run(&loudBoat{}, map[string]int{"red": 0, "RED": 1})
			})
		})
	}
}
