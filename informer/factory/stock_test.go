package factory_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
)

// TestTypesThatWereNotGivenAreLoggedOnce checks the log line about a type that the program uses and has not passed to
// the factory. Its objects are in memory and are listed at each start (issue 16, B7).
func TestTypesThatWereNotGivenAreLoggedOnce(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, "not given to the factory") {
			lines = append(lines, args)
		}
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	o := factory.Options{Informer: informer.Options{InMemory: true}}
	f, err := factory.NewSharedInformerFactory(fake.NewClientset(), 0, o, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Shutdown()
	defer cancel()
	logged := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "\n")
	}

	f.Core().V1().Pods().Informer()
	f.StartWithContext(ctx)
	if got := logged(); got != "" {
		t.Errorf("of a type that was given: %s", got)
	}
	f.Core().V1().Secrets().Informer()
	f.StartWithContext(ctx)
	f.StartWithContext(ctx)
	if got := logged(); strings.Count(got, "\n") != 0 || !strings.Contains(got, `"type"="*v1.Secret"`) {
		t.Errorf("logged %q, want one line of Secrets", got)
	}
	f.Core().V1().Services().Informer()
	f.StartWithContext(ctx)
	if got := logged(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"type"="*v1.Service"`) {
		t.Errorf("logged %q, want one line each of Secrets and Services", got)
	}
}
