package informer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selectorless is a ListerWatcher that overwrites the field selector, as cache.NewListWatchFromClient's does.
type selectorless struct{ *server }

func (s selectorless) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.FieldSelector = ""
	return s.server.ListWithContext(ctx, o)
}

// TestUnguarded: what would not be noticed is said in the status.
func TestUnguarded(t *testing.T) {
	known := func(context.Context) (string, error) { return "known", nil }
	forbidden := func(context.Context) (string, error) {
		return "", apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil)
	}
	for name, tt := range map[string]struct {
		clusterID, hash func(context.Context) (string, error)
		selectorless    bool
		want            []string
	}{
		"all is guarded":       {clusterID: known, hash: known},
		"no options":           {want: []string{whatCluster + ": Options.ClusterID", whatSchema + ": Options.OpenAPIHash"}},
		"not allowed":          {clusterID: forbidden, hash: known, want: []string{whatCluster + ": namespaces"}},
		"no look-ups possible": {clusterID: known, hash: known, selectorless: true, want: []string{"a server that was restored"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.ClusterID, r.o.OpenAPIHash = tt.clusterID, tt.hash
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				r.start()
				r.close()
				i := r.open()
				if tt.selectorless {
					i.lw = selectorless{r.srv}
				}
				r.run()
				synctest.Wait()
				got := i.Status().Unguarded
				if len(got) != len(tt.want) {
					t.Fatalf("unguarded: %q, want %q", got, tt.want)
				}
				for n, want := range tt.want {
					if !strings.HasPrefix(got[n], want) {
						t.Errorf("unguarded: %q, want %q", got[n], want)
					}
				}
				r.close()
			})
		})
	}
}

// TestResourceOfTheExample: the command line finds out what a Go program has stored.
func TestResourceOfTheExample(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.start()
		info, err := i.store.Info(t.Context())
		if err != nil || info.Resource.Kind != "Pod" || info.Resource.Singular != "pod" {
			t.Errorf("%+v, %v", info.Resource, err)
		}
		r.close()
	})
	for kind, example := range map[string]runtime.Object{
		"Pod":    &corev1.Pod{},
		"Widget": &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Widget"}},
		"":       &metav1.PartialObjectMetadata{},
	} {
		if got := kindOfExample(example); got != kind {
			t.Errorf("%T: %q, want %q", example, got, kind)
		}
	}
}
