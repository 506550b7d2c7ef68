package informer_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/informer"
)

// selectorless is a ListerWatcher that overwrites the field selector of requests, as cache.NewListWatchFromClient does.
type selectorless struct{ *server }

func (s selectorless) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.FieldSelector = ""
	return s.server.ListWithContext(ctx, o)
}

func TestUnguarded(t *testing.T) {
	known := func(context.Context) (string, error) { return "known", nil }
	forbidden := func(context.Context) (string, error) {
		return "", apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil)
	}
	answers := func(code int32) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			return "", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: "no"}}
		}
	}
	broken := func(context.Context) (string, error) { return "", errors.New("<html>") }
	for name, tt := range map[string]struct {
		clusterID, hash func(context.Context) (string, error)
		selectorless    bool
		transform       bool
		want            []string
	}{
		"all is guarded":  {clusterID: known, hash: known},
		"no options":      {want: []string{whatSchema + ": Options.OpenAPIHash", whatCluster + ": Options.ClusterID"}},
		"not allowed":     {clusterID: forbidden, hash: known, want: []string{whatCluster + ": namespaces"}},
		"no such request": {clusterID: answers(http.StatusNotImplemented), hash: known, want: []string{whatCluster + ":"}},
		// An error of OpenAPIHash does not prevent the watch, which does not need the hash.
		"no OpenAPI": {clusterID: known, hash: answers(http.StatusInternalServerError),
			want: []string{whatSchema + ":"}},
		"OpenAPI is no JSON": {clusterID: known, hash: broken, want: []string{whatSchema + ": <html>"}},
		"unversioned transform": {clusterID: known, hash: known, transform: true,
			want: []string{whatTransform + ": Options.TransformVersion"}},
		"no look-ups possible": {clusterID: known, hash: known, selectorless: true,
			want: []string{"a server that was restored"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.ClusterID, r.o.OpenAPIHash = tt.clusterID, tt.hash
				if tt.transform {
					r.o.TransformVersion = informer.Unversioned
				}
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				r.start()
				r.close()
				i := r.open()
				if tt.selectorless {
					informer.SetListerWatcher(i, selectorless{r.srv})
				}
				if tt.transform {
					if err := i.SetTransform(func(obj any) (any, error) { return obj, nil }); err != nil {
						t.Fatal(err)
					}
				}
				r.run()
				synctest.Wait()
				if s := i.Status(); !s.Synced || s.Err != nil {
					t.Errorf("%+v", s)
				}
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

// TestGuardedLater checks that the status reports that another cluster would go unnoticed until the next list, if the
// cluster's id could not be read at the last list.
func TestGuardedLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var allowed atomic.Bool
		r := newRig(t)
		r.o.OpenAPIHash = func(context.Context) (string, error) { return "known", nil }
		r.o.ClusterID = func(context.Context) (string, error) {
			if !allowed.Load() {
				return "", apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil)
			}
			return "one", nil
		}
		r.srv.write("a/1", "x")
		i := r.start()
		unguarded := func(what string, want ...string) {
			t.Helper()
			got := i.Status().Unguarded
			if len(got) != len(want) || len(got) > 0 && !strings.Contains(got[0], want[0]) {
				t.Errorf("%s: unguarded %q, want %q", what, got, want)
			}
		}
		unguarded("forbidden", "forbidden")
		r.close()
		allowed.Store(true)
		i = r.start()
		unguarded("allowed", "what is stored was listed when it could not be read")
		r.close()
		r.srv.write("a/2", "x")
		r.srv.compact()
		i = r.start()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		unguarded("listed anew")
		r.close()
	})
}

// TestResourceOfTheExample checks that the kind of the example object is stored, which the command line shows.
func TestResourceOfTheExample(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.start()
		info, err := informer.Store(i).Info(t.Context())
		if err != nil || info.Resource.Kind != "Pod" || info.Resource.Singular != "pod" {
			t.Errorf("%+v, %v", info.Resource, err)
		}
		r.close()
	})
}
