package informer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
)

// TestDeniedListIsRetried checks that a list that the server denies (403 or 404) is retried after the ordinary
// back-off. So permissions or a CRD that are applied seconds after the controller take effect as soon as with
// client-go. Issue 16, A17.
func TestDeniedListIsRetried(t *testing.T) {
	const ms = time.Millisecond
	ceilings := []time.Duration{800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 30000 * ms}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for name, denial := range map[string]error{
		"403": apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no RBAC yet")),
		"404": apierrors.NewNotFound(pods.GroupResource(), ""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries []time.Time
				lw := &cache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						tries = append(tries, time.Now())
						return nil, denial
					},
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, denial },
				}
				quiet := logr.Discard()
				inf, err := informer.New(lw, &corev1.Pod{}, informer.Options{
					InMemory: true, Identity: entry.Identity{GroupVersionResource: pods}, Logger: &quiet,
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				inf.RunWithContext(ctx)
				longest := time.Duration(0)
				for n := range len(tries) - 1 {
					wait, most := tries[n+1].Sub(tries[n]), ceilings[min(n, len(ceilings)-1)]
					if wait > most {
						t.Errorf("try %d came after %v, want at most %v", n+2, wait, most)
					}
					longest = max(longest, wait)
				}
				if longest < 25*time.Second {
					t.Errorf("of %d waits the longest was %v: the server is not spared", len(tries)-1, longest)
				}
			})
		})
	}
}
