package factory

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestUnstarted checks the log line about types that were not started: their listers have the objects of an earlier
// run. Issue 37.
func TestUnstarted(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x")))
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	for _, start := range []bool{true, false} {
		var lines []string
		logger := funcr.New(func(_, args string) {
			if strings.Contains(args, "were not started") {
				lines = append(lines, args)
			}
		}, funcr.Options{})
		o := on(t, st)
		o.Informer.Logger = &logger
		typed, err := NewSharedInformerFactory(c.typed, 0, o, &corev1.Pod{})
		must(t, err)
		dynamic := NewDynamicSharedInformerFactory(c.dynamic, 0, o)
		dynamic.ForResource(pods)
		stop := make(chan struct{})
		if start {
			typed.Start(stop)
			dynamic.Start(stop)
		}
		for range 2 {
			typed.WaitForCacheSync(stop)
			dynamic.WaitForCacheSync(stop)
		}
		found, err := typed.Core().V1().Pods().Lister().List(labels.Everything())
		if err != nil || len(found) != 1 {
			t.Errorf("%d pods, %v", len(found), err)
		}
		close(stop)
		typed.Shutdown()
		dynamic.Shutdown()
		switch text := strings.Join(lines, "\n"); {
		case start && text != "":
			t.Errorf("all are started: %s", text)
		case !start && (len(lines) != 2 || !strings.Contains(text, "*v1.Pod") || !strings.Contains(text, `"pods"`)):
			t.Errorf("none is started: %q", lines)
		}
	}
}
