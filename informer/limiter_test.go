package informer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

// TestInformersShareALimiter checks that, while the server is unreachable, the informers of a store together make as
// many requests as one informer. Soon after the outage all of them are live without a list.
func TestInformersShareALimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := logr.Discard()
		st, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{Logger: &quiet})
		if err != nil {
			t.Fatal(err)
		}
		var away atomic.Bool
		var requests atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var servers []*server
		var informers []*informer.Informer
		for n := range 30 {
			namespace := fmt.Sprintf("ns-%02d", n)
			srv := newServer()
			srv.write(namespace+"/a", "1")
			srv.fail = func(string, metav1.ListOptions) error {
				requests.Add(1)
				if away.Load() {
					return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				}
				return nil
			}
			i, err := informer.New(srv, &corev1.Pod{}, informer.Options{
				Store: st, InMemory: n%3 == 0, Logger: &quiet, Residency: testresidency.Of(t),
				Identity: entry.Identity{GroupVersionResource: podsIdentity.GroupVersionResource, Namespace: namespace},
			})
			if err != nil {
				t.Fatal(err)
			}
			servers, informers = append(servers, srv), append(informers, i)
			wg.Go(func() { i.RunWithContext(ctx) })
		}
		live := func() (n int) {
			for _, i := range informers {
				if i.Status().Source == informer.Live {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		if n := live(); n != len(informers) {
			t.Fatalf("%d are live", n)
		}
		away.Store(true)
		requests.Store(0)
		for _, srv := range servers {
			srv.disconnect()
		}
		time.Sleep(5 * time.Minute)
		if n := requests.Load(); n < 10 || n > 60 {
			t.Errorf("%d requests in five minutes", n)
		}
		if err := informers[1].Status().Err; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Status.Err: %v", err)
		}
		away.Store(false)
		time.Sleep(35 * time.Second)
		for i, srv := range servers {
			srv.mu.Lock()
			if srv.lists != 1 {
				t.Errorf("informer %d made %d lists", i, srv.lists)
			}
			srv.mu.Unlock()
		}
		if n := live(); n != len(informers) {
			t.Errorf("%d are live after the outage", n)
		}
		cancel()
		wg.Wait()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
}
