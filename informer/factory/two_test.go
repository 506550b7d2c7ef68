package factory

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestTwoFactoriesOneStore checks the factories of two components of a program, such as the sources of external-dns:
// one list and one watch of a common resource, but separate handlers and listers. Issue 38.
func TestTwoFactoriesOneStore(t *testing.T) {
	for _, fl := range flavors {
		t.Run(fl.name, func(t *testing.T) {
			srv, c := startServer(t, fakeapi.Options{})
			must(t, srv.Load(pods, pod("a", "1", "x")))
			st := openStore(t, t.TempDir())
			defer closeStore(t, st)
			first := fl.ours(t, c, on(t, st), &corev1.Pod{})
			second := fl.ours(t, clientsOf(t, srv), on(t, st), &corev1.Pod{})
			h, h2 := &recorder{}, &recorder{}
			reg, stop := first.start(t, pods, h)
			reg2, stop2 := second.start(t, pods, h2)
			first.waitSynced(t, reg)
			second.waitSynced(t, reg2)
			equal(t, "first", h.take(), []string{"add a/1=x initial=true"})
			equal(t, "second", h2.take(), []string{"add a/1=x initial=true"})
			// HasSynced becomes true after the list, before the watch has begun.
			for ctx := testContext(t); srv.Counts(pods).Watches == 0 && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			}
			if got := srv.Counts(pods); got.Lists != 1 || got.Watches != 1 {
				t.Errorf("%+v", got)
			}
			stop()
			must(t, srv.Load(pods, pod("a", "2", "y")))
			inf, err := informer.Of(second.informer(pods))
			must(t, err)
			received := func() bool {
				s := inf.Status()
				return len(second.listed(t, pods)) == 2 && len(s.Handlers) == 1 && s.Handlers[0].Pending == 0
			}
			for ctx := testContext(t); !received() && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			}
			equal(t, "first, after its end", h.take(), nil)
			stop2()
			equal(t, "second", h2.take(), []string{"add a/2=y initial=false"})
			if got := srv.Counts(pods); got.Lists != 1 || got.Watches != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}
